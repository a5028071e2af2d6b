// Counts the errors of this page, before anything is drawn. The count is in the attribute data-errors of
// the root element, and shown to the reader.
'use strict';
const trouble = (() => {
  const root = document.documentElement;
  let count = 0;
  root.dataset.errors = '0';
  const note = (what) => {
    count += 1;
    root.dataset.errors = String(count);
    root.dataset.firstError = root.dataset.firstError || String(what).slice(0, 300);
    const place = document.getElementById('trouble');
    if (place) {
      place.hidden = false;
      place.textContent = `${count} error(s) while drawing this page; charts may be missing. First: ` +
        root.dataset.firstError;
    }
  };
  window.addEventListener('error', (event) => note(event.message));
  window.addEventListener('unhandledrejection', (event) => note(event.reason));
  document.addEventListener('securitypolicyviolation', (event) => note(`fetch of ${event.blockedURI} forbidden`));
  const shown = console.error;
  console.error = (...what) => {
    note(what.join(' '));
    shown.apply(console, what);
  };
  return note;
})();
