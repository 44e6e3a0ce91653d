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
& .lead{color:var(--quiet);margin-left:.6em}
& .main{display:flex;flex-wrap:wrap;align-items:center;gap:.2em 1em;margin:.2em 0}
& .big{font-size:1.5em;font-weight:600}
& p{margin:.35em 0}
& .note{color:var(--quiet);font-size:.92em}
& ul,& ol{margin:.3em 0;padding-left:1.6em}
& li{margin:.1em 0}
& td ul{margin:0;padding-left:1.2em}
& pre{background:var(--panel);color:inherit;border:0;border-radius:4px;margin:.5em 0;
padding:.6em .8em;overflow-x:auto;white-space:pre;
font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
& .wide{overflow-x:auto}
& table{border-collapse:collapse;border:0;margin:.4em 0;font-size:.88em;width:auto;
color:inherit;background:none}
& th,& td{border:0;border-bottom:1px solid var(--line);padding:.25em .4em;
vertical-align:middle;color:inherit;background:none;font-size:1em;max-width:36em;
overflow-wrap:break-word}
& tr:nth-child(n){background:none;border:0}
& tbody tr:last-child>*,& tfoot td{border-bottom:0}
& tfoot td{padding-top:0}
& thead th{color:var(--quiet);font-weight:400;vertical-align:bottom}
& .label{display:block;width:max-content;max-width:12em}
& tbody th{font-weight:400}
& .word,& .facts th,& .facts td{text-align:left}
& .number{text-align:right}
& tbody .number{white-space:nowrap}
& .facts td{max-width:46em;vertical-align:top;overflow-wrap:anywhere}
& .facts th{color:var(--quiet);vertical-align:top;min-width:7em}
& .wide tbody th{position:sticky;left:0;background:var(--ground)}
& .marked:nth-child(n),& .wide .marked.marked th{background:var(--panel)}
& .marked .number{font-weight:600}
& caption{text-align:left;color:var(--quiet);padding:.2em 0}
& .tag{border:1px solid var(--doubt);border-radius:4px;padding:0 .4em;font-size:.9em}
& .tag.quiet{border-color:var(--line)}
& .finding{border-top:1px solid var(--line);padding:.3em 0;margin-top:.3em}
& .finding .tag{margin-right:.5em}
& details{border-top:1px solid var(--line);padding:.3em 0;margin-top:.3em}
& summary{cursor:pointer;margin:0;color:var(--policy)}
& svg{display:block;overflow:visible;max-width:none}
& .bar{width:7em;height:1.4em;stroke:var(--policy);stroke-width:2}
& .bar circle,& .bar path{fill:var(--policy)}
& .bar circle{r:4px}
& .bar.open{stroke:var(--doubt)}
& .bar.open circle{fill:var(--ground)}
& .bar .zero{stroke:var(--base);stroke-width:1;stroke-dasharray:4 3}
& .axis{width:7em;height:1.6em}
& .axis line{stroke:var(--base)}
& .axis text{fill:var(--quiet);font-size:.85em}
& .main .bar,& .main .axis{width:18em}
& .share{width:6em;height:16px}
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
