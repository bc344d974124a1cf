// The sidebar shows where the reader is: of a page below its fold, too.
document.addEventListener("DOMContentLoaded", () => {
  const scroller = document.querySelector(".sidebar-scroll");
  const current = scroller?.querySelector(".sidebar-tree .current-page");
  if (current) scroller.scrollTop = Math.max(0, current.offsetTop + current.offsetHeight - scroller.clientHeight * 0.6);
});
