/// What this browser remembers of its user: a value in local storage, as state. A browser that keeps
/// nothing, or something else under the name, gives the default.

export class Kept<T> {
  #value = $state.raw<T>() as T;
  readonly #key: string;

  constructor(name: string, initial: T, isGood: (value: unknown) => value is T) {
    this.#key = `tbhub.${name}`;
    this.#value = initial;
    try {
      const text = localStorage.getItem(this.#key);
      const value: unknown = text === null ? null : JSON.parse(text);
      if (isGood(value)) this.#value = value;
    } catch {
      // The default it is.
    }
  }

  get value(): T {
    return this.#value;
  }

  set value(value: T) {
    this.#value = value;
    try {
      localStorage.setItem(this.#key, JSON.stringify(value));
    } catch {
      // It lasts as long as the page.
    }
  }
}
