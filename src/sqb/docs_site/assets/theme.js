// The button between light and dark; what was chosen stays for the next page.
(function () {
  var root = document.documentElement;
  var button = document.getElementById("theme");
  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  button.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("sqb-theme", root.dataset.theme); } catch (error) { /* then only until the next page */ }
    document.dispatchEvent(new Event("sqb-theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    document.dispatchEvent(new Event("sqb-theme"));
  });
})();
