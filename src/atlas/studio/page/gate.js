// For links that hold a problem and no token: the token of this browser's last visit opens them, or the reader gives it.

const told = document.getElementById("told");
const form = document.getElementById("form");
const enter = (token) => location.replace(`/${encodeURIComponent(token)}/${location.hash}`);

const known = localStorage.getItem("atlas-studio-token");
const answer = known && await fetch(`/${encodeURIComponent(known)}/icon.svg`).catch(() => null);
if (answer && answer.ok) enter(known);
else {
  told.textContent = "This studio opens with its token only. It is in the address that the terminal shows.";
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const written = document.getElementById("address").value.trim();
    const token = written.includes("/") ? written.split("/").filter(Boolean).at(2) ?? "" : written;
    if (token) enter(token);
  });
}
