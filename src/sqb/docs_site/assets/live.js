// Only there when `sqb docs serve` sends the page: it is loaded again when files or tables have changed.
(function () {
  var events = new EventSource("/sqb-events");
  events.addEventListener("change", function () { location.reload(); });
  events.addEventListener("problem", function (event) {
    var banner = document.getElementById("problem") || document.createElement("p");
    banner.id = "problem";
    banner.setAttribute("role", "alert");
    banner.textContent = "Not renewed: " + event.data;
    document.querySelector("main").prepend(banner);
  });
})();
