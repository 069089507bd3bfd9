"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs");
  const themes = read("themes");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();
  const hidden = {};

  const config = (palette) => {
    const theme = themes[dark.matches ? "dark" : "light"];
    const range = { ...theme.config.range, category: theme.palettes[palette] };
    return { ...theme.config, range };
  };

  const draw = async (id, entry) => {
    const element = document.getElementById(id);
    views.get(id)?.finalize();
    try {
      const spec = { ...entry.spec, width: "container", autosize: { type: "fit-x", contains: "padding" } };
      const result = await vegaEmbed(element, spec, {
        renderer: "svg", mode: "vega-lite", config: config(entry.palette),
        actions: { export: true, source: false, compiled: false, editor: false },
        downloadFileName: id, tooltip: { theme: "custom" },
      });
      views.set(id, result);
      await result.view.signal("hidden", hidden[entry.figure] ?? []).runAsync();
      element.dataset.drawn = "true";
    } catch (error) {
      element.classList.add("failed");
      element.textContent = "This plot could not be drawn: " + error.message;
      console.error(id, error);
    }
  };

  const drawAll = () => Promise.all(Object.entries(specs).map(([id, entry]) => draw(id, entry)));

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const { figure, series } = button.dataset;
      const shown = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!shown));
      const others = (hidden[figure] ?? []).filter((name) => name !== series);
      hidden[figure] = shown ? [...others, series] : others;
      for (const [id, entry] of Object.entries(specs)) {
        if (entry.figure === figure) views.get(id)?.view.signal("hidden", hidden[figure]).runAsync();
      }
    });
  }

  // A plot that was drawn while folded has no width: Vega measures anew when the window resizes.
  for (const folded of document.querySelectorAll("details:has(.plot)")) {
    folded.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")));
  }

  dark.addEventListener("change", drawAll);
  drawAll().then(() => { document.documentElement.dataset.ready = "true"; });
})();
