// Fills the navigation of a page of a public name from `PACKAGES`, which the build writes before this text.
// All these pages are in one folder, so a link is the name of the page.
const apiNav = document.getElementById("api-names");
const apiPage = DOCUMENTATION_OPTIONS.pagename.split("/").pop();
const apiItem = (page, label, level) => {
  const item = document.createElement("li"), link = document.createElement("a");
  item.className = `toctree-l${level}${page === apiPage ? " current active" : ""}`;
  link.className = `reference internal${page === apiPage ? " current" : ""}`;
  link.href = `${page}.html`;
  link.textContent = label;
  if (page === apiPage) link.setAttribute("aria-current", "page");
  item.append(link);
  return item;
};
if (apiNav) {
  const list = document.createElement("ul");
  list.className = "nav bd-sidenav";
  list.append(apiItem("index", "All packages", 1));
  for (const [name, pages] of Object.entries(PACKAGES)) {
    const item = apiItem(name, name, 1);
    list.append(item);
    if (!pages.includes(apiPage)) continue;
    item.classList.add("current", "active");
    const below = document.createElement("ul");
    for (const page of pages) below.append(apiItem(page, page.startsWith(`${name}.`) ? page.slice(name.length + 1) : page, 2));
    item.append(below);
  }
  apiNav.replaceChildren(list);
  const link = apiNav.querySelector("[aria-current]"), frame = apiNav.closest(".bd-sidebar-primary");
  if (link && frame) frame.scrollTop = link.offsetTop - frame.clientHeight / 2;
}
