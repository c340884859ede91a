// Runs before first paint, as a classic script: no flash of the other theme.

(() => {
  let choice: unknown = null;
  try {
    choice = JSON.parse(localStorage.getItem('procinsh.theme') ?? 'null');
  } catch {
    // Refused storage: follow the system.
  }
  const light = choice === 'light' || (choice !== 'dark' && matchMedia('(prefers-color-scheme: light)').matches);
  document.documentElement.classList.add(light ? 'theme-light' : 'theme-dark');
})();
