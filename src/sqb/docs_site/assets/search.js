// Search over names, columns, tags and descriptions, from every page. The data is loaded when it is first needed.
(function () {
  var field = document.getElementById("search");
  var list = document.getElementById("search-results");
  var up = document.body.dataset.up;
  var chosen = -1;

  function load(done) {
    if (window.SQB_GRAPH) return done();
    var script = document.createElement("script");
    script.src = up + "data/graph.js";
    script.onload = done;
    document.head.append(script);
  }

  function rank(node, text) {
    var name = node.name.toLowerCase(), short = name.slice(name.lastIndexOf(".") + 1);
    if (short === text || name === text) return 0;
    if (short.startsWith(text)) return 1;
    if (name.includes(text)) return 2;
    if (node.tags.some(function (tag) { return tag.toLowerCase() === text; })) return 3;
    return (node.description + " " + node.owner).toLowerCase().includes(text) ? 5 : -1;
  }

  function find(text) {
    var matches = [];
    window.SQB_GRAPH.nodes.forEach(function (node) {
      var order = rank(node, text);
      if (order >= 0) matches.push({ order: order, name: node.name, word: node.kind, state: node.state, page: node.page });
      node.columns.forEach(function (column) {
        var lower = column.toLowerCase();
        if (lower.includes(text)) {
          matches.push({
            order: lower === text ? 3 : 4, name: node.name + "." + column, word: "column", state: "",
            page: node.page + "#column-" + encodeURIComponent(column),
          });
        }
      });
    });
    return matches.sort(function (a, b) { return a.order - b.order || a.name.localeCompare(b.name); }).slice(0, 12);
  }

  function show() {
    var text = field.value.trim().toLowerCase();
    list.replaceChildren();
    chosen = -1;
    var matches = text ? find(text) : [];
    matches.forEach(function (entry, index) {
      var item = document.createElement("li");
      var link = document.createElement("a");
      var word = document.createElement("small");
      item.setAttribute("role", "option");
      item.id = "search-" + index;
      link.href = up + entry.page;
      link.textContent = entry.name;
      word.textContent = entry.word;
      if (entry.state) word.className = "dot-" + entry.state;
      link.append(word);
      item.append(link);
      list.append(item);
    });
    if (text && !matches.length) {
      var none = document.createElement("li");
      none.className = "note";
      none.textContent = "Nothing is called that.";
      list.append(none);
    }
    list.hidden = !text;
    field.setAttribute("aria-expanded", String(!list.hidden));
  }

  function choose(step) {
    var items = list.querySelectorAll("[role=option]");
    if (!items.length) return;
    chosen = (chosen + step + items.length) % items.length;
    items.forEach(function (item, index) { item.setAttribute("aria-selected", String(index === chosen)); });
    field.setAttribute("aria-activedescendant", items[chosen].id);
    items[chosen].scrollIntoView({ block: "nearest" });
  }

  field.addEventListener("input", function () { load(show); });
  field.addEventListener("focus", function () { load(function () {}); });
  field.addEventListener("keydown", function (event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      var items = list.querySelectorAll("[role=option] a");
      if (items.length) items[Math.max(chosen, 0)].click();
    } else if (event.key === "Escape") {
      field.value = "";
      show();
      field.blur();
    }
  });
  document.addEventListener("keydown", function (event) {
    var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      field.focus();
    }
  });
  document.addEventListener("click", function (event) {
    if (!event.target.closest(".search")) list.hidden = true;
  });
})();
