// When our compare page has drawn: every chart says how many lines it shows. Runs before the page's
// own scripts. `wanted` is {runs}; `compared.all` is when a chart first showed so many.
(() => {
  const compared = (window.compared = { all: 0, frames: [] });
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      if (Number(target.dataset?.lines) >= wanted.runs && !compared.all) {
        // It has been drawn; a frame has to pass until it is seen.
        requestAnimationFrame(() => setTimeout(() => (compared.all ||= Date.now()), 0));
      }
    }
  }).observe(document, { subtree: true, childList: true, attributeFilter: ["data-lines"] });
})();
