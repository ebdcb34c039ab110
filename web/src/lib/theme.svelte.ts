/// Light, dark, or as the system is. `public/theme.js` applies the same before anything is drawn.

export type Theme = "light" | "dark" | "system";
const NAME = "tbhub.theme";

function read(): Theme {
  try {
    const kept = localStorage.getItem(NAME);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}

class ThemeChoice {
  #choice = $state<Theme>(read());
  #systemIsDark = $state(false);

  constructor() {
    if (typeof matchMedia === "undefined") return;
    const system = matchMedia("(prefers-color-scheme: dark)");
    this.#systemIsDark = system.matches;
    system.addEventListener("change", () => (this.#systemIsDark = system.matches));
  }

  get choice(): Theme {
    return this.#choice;
  }

  set choice(theme: Theme) {
    this.#choice = theme;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(NAME, theme);
    } catch {
      // It lasts as long as the page.
    }
  }

  /// What is drawn, for what is not drawn by style sheets.
  get isDark(): boolean {
    return this.#choice === "dark" || (this.#choice === "system" && this.#systemIsDark);
  }
}

export const theme = new ThemeChoice();
