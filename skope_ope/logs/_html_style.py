# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How results look in a notebook: colours of the project, light and dark."""

LIGHT = (
    "--text:#1c2126;--quiet:#57606a;--ground:#ffffff;--panel:#f5f7f9;--line:#d5dbe1;"
    "--policy:#0072b2;--base:#666666;--doubt:#d55e00"
)
DARK = (
    "--text:#e4e8ec;--quiet:#a7b0ba;--ground:#14181c;--panel:#1e242a;--line:#3a434c;"
    "--policy:#56b4e9;--base:#aaaaaa;--doubt:#f08030"
)
# Twice, so that the rules count more than those of notebooks for tables.
CARD = ".skope-ope.skope-ope"
THEMES = {  # what sites, JupyterLab and VS Code say of the page
    LIGHT: ("[data-theme=light]", "[data-jp-theme-light=true]", ".vscode-light"),
    DARK: ("[data-theme=dark]", "[data-jp-theme-light=false]", ".vscode-dark"),
}
RULES = """
&{background:var(--ground);color:var(--text);border:1px solid var(--line);
border-radius:6px;padding:.7em .9em;margin:.3em 0;max-width:70em;
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:break-word;text-align:left}
& *{box-sizing:border-box}
& .title{font-weight:600}
& .main .bar,& .main .axis{width:18em}
& .lead{color:var(--quiet);margin-left:.6em}
& .main{display:flex;flex-wrap:wrap;align-items:center;gap:.2em 1em;margin:.2em 0}
& .big{font-size:1.5em;font-weight:600}
& p{margin:.35em 0}
& .note{color:var(--quiet);font-size:.92em}
& ul{margin:.3em 0;padding-left:1.2em}
& .wide{overflow-x:auto}
& table{border-collapse:collapse;border:0;margin:.4em 0;font-size:.92em;width:auto;
color:inherit;background:none}
& th,& td{border:0;border-bottom:1px solid var(--line);padding:.25em .5em;
vertical-align:middle;color:inherit;background:none;font-size:1em;max-width:36em;
overflow-wrap:break-word}
& tr{background:none;border:0}
& tbody tr:last-child>*{border-bottom:0}
& thead th{color:var(--quiet);font-weight:400}
& tbody th{font-weight:400}
& .word,& .facts th,& .facts td{text-align:left}
& .number{text-align:right;white-space:nowrap}
& .facts th{color:var(--quiet);vertical-align:top;min-width:9em}
& .marked th,& .marked td{font-weight:600}
& caption{text-align:left;color:var(--quiet);padding:.2em 0}
& .tag{border:1px solid var(--doubt);border-radius:4px;padding:0 .4em;font-size:.9em}
& .tag.quiet{border-color:var(--line)}
& details{border-top:1px solid var(--line);padding:.3em 0;margin-top:.3em}
& summary{cursor:pointer;color:var(--policy)}
& svg{display:block;overflow:visible}
& .bar{width:9em;height:1.4em;stroke:var(--policy);stroke-width:2}
& .bar circle,& .bar path{fill:var(--policy)}
& .bar.open{stroke:var(--doubt)}
& .bar.open circle{fill:var(--ground)}
& .bar .zero{stroke:var(--base);stroke-width:1;stroke-dasharray:4 3}
& .axis{width:9em;height:1.6em}
& .axis line{stroke:var(--base)}
& .axis text{fill:var(--quiet);font-size:.85em}
& .share{width:8em;height:16px}
& .share .whole{fill:var(--line)}
& .share .part{fill:var(--policy)}
"""


def _rules():
    themes = "".join(
        ",".join(f"{one} {CARD}" for one in places) + f"{{{colours}}}"
        for colours, places in THEMES.items()
    )
    dark = f"@media(prefers-color-scheme:dark){{{CARD}{{{DARK}}}}}"
    rules = RULES.replace("\n", "").replace("&", CARD)
    return f"{CARD}{{{LIGHT}}}{dark}{themes}{rules}"


STYLE = _rules()
