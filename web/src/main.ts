import { mount } from "svelte";

import App from "./App.svelte";
import { chooseAtFirst } from "./lib/i18n.svelte";
import "./ui/tokens.css";

await chooseAtFirst();
mount(App, { target: document.getElementById("app")! });
