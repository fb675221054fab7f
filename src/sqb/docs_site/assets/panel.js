// What is beside the graph when a node is chosen: what it is, its columns, and ways on.
window.SqbPanel = (function () {
  var WORDS = { "new": "never built" };

  function element(tag, text, attributes) {
    var made = document.createElement(tag);
    if (text) made.textContent = text;
    Object.entries(attributes || {}).forEach(function (pair) { made.setAttribute(pair[0], pair[1]); });
    return made;
  }

  function button(text, click, attributes) {
    var made = element("button", text, Object.assign({ type: "button" }, attributes || {}));
    made.addEventListener("click", click);
    return made;
  }

  function stateWord(node) { return WORDS[node.state] || node.state; }
  function kindWord(node) { return node.type === "model" ? node.kind : node.type; }
  function count(number, noun) { return number + " " + noun + (number === 1 ? "" : "s"); }

  // `traced` is null, or the column that was asked for with its way; `on` has what buttons do.
  function show(panel, node, reach, traced, on) {
    var title = element("h2", ""), chips = element("p", "", { class: "chips" });
    title.append(element("a", node.name, { href: node.page }));
    chips.append(element("span", stateWord(node), { class: "state state-" + node.state }));
    chips.append(element("span", kindWord(node), { class: "kind" }));
    node.tags.forEach(function (tag) { chips.append(element("span", tag, { class: "tag" })); });
    panel.replaceChildren(button("×", on.close, { "aria-label": "Close", class: "close" }), title, chips);
    if (node.reason && node.state !== "current") panel.append(element("p", node.reason, { class: "note" }));
    if (node.description) panel.append(element("p", node.description));
    var facts = element("p", "", { class: "note", role: "status" });
    if (traced) facts.textContent = "Lineage of " + traced.column + ": " + count(traced.way.columns.size, "node");
    else {
      facts.textContent = count(reach.above, "node") + " above, " + reach.below + " below";
      if (node.rows !== null) facts.textContent += " · " + count(node.rows, "row").replace(/^\d+/, node.rows.toLocaleString("en"));
    }
    panel.append(facts);
    var ways = element("p", "", { class: "ways" });
    ways.append(element("a", "Open its page", { href: node.page, class: "button" }));
    if (traced) ways.append(button("The whole node", on.whole));
    else if (reach.above + reach.below) ways.append(button("Only these", on.only, { title: "Only what is above and below" }));
    panel.append(ways);
    if (node.columns.length) panel.append(element("h3", "Columns"), listColumns(node, traced, on));
    panel.hidden = false;
  }

  function listColumns(node, traced, on) {
    var list = element("ul", "", { class: "column-list" });
    node.columns.forEach(function (column) {
      var item = element("li", ""), isTraced = Boolean(traced && traced.column === column);
      item.append(button(column, function () { on.column(column); }, { "aria-label": "Lineage of " + column, "aria-pressed": String(isTraced) }));
      list.append(item);
    });
    return list;
  }

  function showTip(tip, node, at, area) {
    tip.replaceChildren(
      element("b", node.name), element("span", stateWord(node), { class: "state state-" + node.state }),
      element("br", ""), document.createTextNode(node.reason));
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(at.x + 14, area.clientWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(at.y + 14, area.clientHeight - tip.offsetHeight - 8)) + "px";
  }

  return { show: show, showTip: showTip, kindWord: kindWord };
})();
