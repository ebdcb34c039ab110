/// TensorBoard's smoothing: an exponential moving average that begins without bias. What is not
/// finite is drawn as it is and not counted; a series of one value throughout stays as it is.

export function smooth(values: Float32Array, weight: number): Float32Array {
  if (weight <= 0 || isConstant(values)) return values;
  const smoothed = new Float32Array(values.length);
  let last = 0;
  let counted = 0;
  let debias = 0;
  for (let at = 0; at < values.length; at++) {
    const value = values[at]!;
    if (!Number.isFinite(value)) {
      smoothed[at] = value;
      continue;
    }
    last = last * weight + (1 - weight) * value;
    counted++;
    // Once it is one it stays so; powers are what this spends its time on.
    if (debias !== 1) debias = weight === 1 ? 1 : 1 - Math.pow(weight, counted);
    smoothed[at] = last / debias;
  }
  return smoothed;
}

function isConstant(values: Float32Array): boolean {
  for (let at = 1; at < values.length; at++) if (values[at] !== values[0]) return false;
  return true;
}
