// Runs before anything is shown: which theme was chosen, and that scripts run at all.
(function () {
  var root = document.documentElement;
  root.classList.add("has-script");
  try {
    var chosen = localStorage.getItem("sqb-theme");
    if (chosen) root.dataset.theme = chosen;
  } catch (error) { /* a browser that keeps nothing follows the system */ }
})();
