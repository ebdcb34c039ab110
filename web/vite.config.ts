/// The page is built into the package, `src/tbhub/hub/web/`, where the hub finds it. Every file is
/// compressed here, once, and not by the hub for everybody who asks.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

function compressed(): Plugin {
  let directory = "";
  return {
    name: "compressed",
    apply: "build",
    configResolved(config) {
      directory = resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
        const path = join(entry.parentPath, entry.name);
        if (!entry.isFile() || path.endsWith(".gz") || entry.name === "index.html") continue;
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  // Addresses are relative: the hub may be below any path, and says so in the page's <base>.
  base: "./",
  plugins: [svelte(), compressed()],
  build: {
    outDir: "../src/tbhub/hub/web",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": "http://127.0.0.1:6900" } },
  test: { include: ["src/**/*.test.ts"] },
});
