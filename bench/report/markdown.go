package report

import (
	"fmt"
	"strings"
)

// Markdown returns the whole report, without the plots.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# haul and its peers, measured\n\nFrom %s. Made by `bench report`; nothing here is typed by hand.\n", text(strings.Join(r.files, ", ")))
	shown, rest := split(r.Sections())
	if rest != "" {
		fmt.Fprintf(&b, "\n%s\n", text(rest))
	}
	for _, s := range append(shown, r.appendix()) {
		fmt.Fprintf(&b, "\n## %s\n\n%s", text(s.Title), s.markdown())
	}
	return b.String()
}

// split returns the sections with measurements, and a sentence about the sections without
// measurements. The sentence is empty if all sections have measurements.
func split(all []Section) (shown []Section, rest string) {
	var titles []string
	for _, s := range all {
		if len(s.Tables) > 0 {
			shown = append(shown, s)
		} else {
			titles = append(titles, s.Title)
		}
	}
	if len(titles) == 0 {
		return shown, ""
	}
	return shown, fmt.Sprintf("Nothing was measured of %s: %s.", count(len(titles), "part"), strings.Join(titles, ", "))
}

// block formats a section as a block of a document. It lists the missing scenarios, because nothing
// else in the document does.
func (s Section) block() string {
	if len(s.Missing) == 0 {
		return s.markdown()
	}
	return s.markdown() + fmt.Sprintf("\n%s: %s.\n", s.Lacks(), text(strings.Join(s.Missing, ", ")))
}

// Lacks returns a text that says how many scenarios are missing.
func (s Section) Lacks() string { return count(len(s.Missing), "scenario") + " not measured" }

// markdown formats a section without its title.
func (s Section) markdown() string {
	var parts []string
	if s.Intro != "" {
		parts = append(parts, text(s.Intro)+"\n")
	}
	for _, t := range s.Tables {
		parts = append(parts, t.markdown())
	}
	if len(s.Tables) == 0 {
		parts = append(parts, "Not measured.\n")
	}
	return strings.Join(parts, "\n")
}

func (t Table) markdown() string {
	var b strings.Builder
	if t.Caption != "" {
		fmt.Fprintf(&b, "**%s**\n\n", text(t.Caption))
	}
	row(&b, t.Head)
	b.WriteString(t.rule())
	for _, r := range t.Rows {
		row(&b, r.Cells)
	}
	for i, n := range t.Notes {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "* %s\n", text(n))
	}
	return b.String()
}

// rule returns the line below the head of a table in Markdown, which aligns figures to the right.
func (t Table) rule() string {
	var columns []string
	for i := range t.Head {
		if t.Word(i) {
			columns = append(columns, "---")
		} else {
			columns = append(columns, "--:")
		}
	}
	return "|" + strings.Join(columns, "|") + "|\n"
}

func row(b *strings.Builder, cells []string) {
	b.WriteString("|")
	for _, c := range cells {
		fmt.Fprintf(b, " %s |", text(c))
	}
	b.WriteString("\n")
}

var escaper = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "~", `\~`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "\n", " ", "\r", " ",
)

// text escapes a text for Markdown. That is necessary because results contain the output of failed
// servers, which can be anything.
func text(s string) string { return escaper.Replace(s) }
