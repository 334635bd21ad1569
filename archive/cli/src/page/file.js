// The page of a file, which has all that it shows.
readFile().then(
  (data) => { globalThis.page = new Page(data, null); },
  (error) => { byId('status').textContent = 'This page cannot show its data: ' + error.message; },
);
