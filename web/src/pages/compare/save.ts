/// Hands something to the browser to keep: a text, or an address that holds the data itself.

export function save(name: string, content: string, type = ""): void {
  const link = document.createElement("a");
  link.download = name;
  link.href = content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
  link.click();
  if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
