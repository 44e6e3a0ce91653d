# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How the page looks: colours of the project, light and dark, wide and narrow."""

from skope_ope.logs._html_style import DARK, LIGHT

_COLOURS = f""":root{{{LIGHT};color-scheme:light dark}}
@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}
"""
_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;
overflow-wrap:anywhere}
main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .5rem}
h2{font-size:1.15rem;margin:2.2rem 0 .5rem}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.4rem 0}ul{margin:.4rem 0;padding-left:1.3rem}li{margin:.25rem 0}
a{color:var(--policy)}
.quiet,figcaption{color:var(--quiet);font-size:.9rem}
.advice{background:var(--panel);border:1px solid var(--line);border-left:6px solid;
border-radius:6px;padding:1rem 1.2rem;margin:1.2rem 0}
.deploy{border-left-color:var(--policy)}.keep{border-left-color:var(--base)}
.undecided,.cautious{border-left-color:var(--doubt)}
.advice h2{font-size:1.45rem;line-height:1.25;margin:0 0 .5rem}
.advice h3{font-size:1rem;margin:.9rem 0 .2rem}
.alarms{border-top:1px solid var(--line);margin-top:.9rem}
.alarms .step{margin:.15rem 0 .35rem;color:var(--quiet)}
.tag{display:inline-block;border:1px solid var(--doubt);border-radius:4px;
padding:0 .4em;font-size:.85rem;font-weight:600;margin-right:.3em}
.tag.error{border-width:2px}
.tag.note{border-color:var(--line)}
figure{margin:.6rem 0}
.row{display:grid;grid-template-columns:minmax(6rem,12rem) 1fr 13rem;gap:.2rem .8rem;
align-items:center;border-top:1px solid var(--line)}
.row .name,.row .figures{padding:.35rem 0}
.row .picture{position:relative;align-self:stretch;min-height:1.6rem}
.row .name span{display:block}
.row .figures{text-align:right;font-variant-numeric:tabular-nums}
.row .figures span{display:block}
svg{display:block;width:100%;overflow:visible}
.bar{position:absolute;inset:0;height:100%;stroke:var(--policy);stroke-width:2.2;color:var(--policy)}
.bar circle,.bar path{fill:var(--policy)}
.bar.open circle{fill:var(--ground)}
.bar.open{stroke:var(--doubt);color:var(--doubt)}
.bar .zero{stroke:var(--base);stroke-width:1;stroke-dasharray:4 3}
.axis line{stroke:var(--base)}
.axis text{fill:var(--quiet);font-size:12px;font-variant-numeric:tabular-nums}
.share .whole{fill:var(--line)}.share .part{fill:var(--policy)}
section>p.wrong{border-left:4px solid var(--doubt);padding-left:.6rem}
table{border-collapse:collapse;width:100%;font-size:.88rem;margin:.6rem 0}
caption{text-align:left;color:var(--quiet);padding-bottom:.3rem}
th,td{padding:.3rem .4rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;overflow-wrap:normal}.word{text-align:left}
td.word{overflow-wrap:break-word}tbody th{overflow-wrap:anywhere;min-width:6rem}
.wide{overflow-x:auto}.facts th,.facts td{text-align:left;overflow-wrap:anywhere}
.facts th{width:15rem}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tbody th{font-weight:400}.marked{background:var(--panel)}
.marked .number{font-weight:600}
details{border:1px solid var(--line);border-radius:6px;
padding:.5rem .8rem;margin:.5rem 0}
summary{cursor:pointer}
pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;
padding:.7rem;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}
@media(max-width:40rem){
.row{grid-template-columns:1fr auto}.row .name{order:1}.row .figures{order:2}
.row .picture{order:3;grid-column:1/-1;height:1.6rem}
thead{display:none}.facts th{width:auto}table,tbody,tr,th,td{display:block}
tr{border-bottom:1px solid var(--line);padding:.4rem 0}
th,td{border:0;padding:.1rem 0}tbody th{font-weight:600}
td[data-label]::before{content:attr(data-label) ": ";color:var(--quiet);font-weight:400}
td.number{text-align:left;white-space:normal}td:empty{display:none}
}
@media print{details>*{display:block}body{font-size:12px}}
"""
STYLE = _COLOURS + _RULES
