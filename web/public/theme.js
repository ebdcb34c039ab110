// Before anything is drawn, so that a dark page is never white first.
try {
  const theme = localStorage.getItem("tbhub.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing follows the system.
}
