// The catalog: a filter over all of its words, and rows sorted by the heading that is clicked.
(function () {
  var table = document.getElementById("catalog");
  var field = document.getElementById("catalog-filter");
  var message = document.getElementById("catalog-message");
  if (!table) return;
  var body = table.tBodies[0];
  var rows = Array.from(body.rows).map(function (row) { return { row: row, text: row.textContent.toLowerCase() }; });

  field.addEventListener("input", function () {
    var words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    rows.forEach(function (entry) {
      var fits = words.every(function (word) { return entry.text.includes(word); });
      entry.row.hidden = !fits;
      shown += fits;
    });
    message.textContent = words.length ? " " + shown + " of " + rows.length : "";
  });

  Array.from(table.tHead.rows[0].cells).forEach(function (heading, index) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", function () {
      var down = heading.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
      heading.setAttribute("aria-sort", down ? "ascending" : "descending");
      rows.sort(function (a, b) {
        var order = compare(a.row.cells[index].textContent, b.row.cells[index].textContent);
        return down ? order : -order;
      });
      rows.forEach(function (entry) { body.append(entry.row); });
    });
  });

  function compare(a, b) {
    var x = Number(a.replaceAll(",", "")), y = Number(b.replaceAll(",", ""));
    return a && b && !isNaN(x) && !isNaN(y) ? x - y : a.localeCompare(b);
  }
})();
