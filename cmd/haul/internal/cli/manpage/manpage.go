// Package manpage writes manual pages in the language of man(7). Its input is plain text in the
// form of help texts. It ensures that no input text can become a formatter request.
package manpage

import (
	"fmt"
	"regexp"
	"strings"
)

// A Page is a manual page that is being written.
type Page struct{ b strings.Builder }

// New begins a page. name is the name of the page, such as haul-get. The page shows date unchanged;
// "" means that it shows no date. source is the program with its version.
func New(name string, section int, date, source, title string) *Page {
	p := &Page{}
	p.macro("TH", strings.ToUpper(name), fmt.Sprint(section), date, source, title)
	p.b.WriteString(".nh\n.ad l\n") // do not hyphenate names, and do not stretch lines
	return p
}

// String returns the page.
func (p *Page) String() string { return p.b.String() }

// Name writes the section NAME. It has one line, which apropos(1) shows.
func (p *Page) Name(name, short string) {
	p.Section("NAME")
	fmt.Fprintf(&p.b, "%s \\- %s\n", escape(name), escape(short))
}

// Section begins a section.
func (p *Page) Section(title string) { p.macro("SH", title) }

// Subsection begins a part of a section.
func (p *Page) Subsection(title string) { p.macro("SS", title) }

// Command writes a line that shows how to call a command: words in bold, then the rest.
func (p *Page) Command(words, rest string) {
	fmt.Fprintf(&p.b, ".PP\n\\fB%s\\fR %s\n", escape(words), escape(rest))
}

// Item writes an entry of a list: a term in bold, and its text below.
func (p *Page) Item(term, text string) {
	fmt.Fprintf(&p.b, ".TP\n\\fB%s\\fR\n%s\n", escape(term), escape(text))
}

// Verbatim writes lines unchanged.
func (p *Page) Verbatim(lines ...string) {
	p.b.WriteString(".PP\n.nf\n")
	for _, line := range lines {
		p.b.WriteString(escape(line) + "\n")
	}
	p.b.WriteString(".fi\n")
}

// Text writes paragraphs, which are separated by empty lines in the text. If each indented line of
// a paragraph has a term, two spaces and a text, they become a list. Other indented lines become
// prose if they are long. If they are short, they are written verbatim.
func (p *Page) Text(text string) {
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		n := 0
		for n < len(lines) && indentOf(lines[n]) == 0 {
			n++
		}
		if head := strings.Join(lines[:n], " "); head != "" {
			fmt.Fprintf(&p.b, ".PP\n%s\n", escape(head))
		}
		if lines = lines[n:]; len(lines) == 0 {
			continue
		}
		if list := listOf(lines); list != nil {
			for _, item := range list {
				p.Item(item[0], item[1])
			}
		} else if hanging := paragraphsOf(lines); hanging != nil {
			for _, text := range hanging {
				fmt.Fprintf(&p.b, ".IP \"\" 2\n%s\n", escape(text))
			}
		} else {
			p.Verbatim(lines...)
		}
	}
}

// row matches a line of a list: it is indented, and two or more spaces separate a term from its
// text.
var row = regexp.MustCompile(`^ +(\S.*?)  +(\S.*)$`)

// listOf returns the terms and texts of a list, or nil if the lines are not a list.
func listOf(lines []string) (list [][2]string) {
	column := -1
	for _, line := range lines {
		m := row.FindStringSubmatchIndex(line)
		switch {
		case m != nil && !strings.Contains(line[m[4]:], "  "):
			column = m[4]
			list = append(list, [2]string{line[m[2]:m[3]], line[m[4]:]})
		case m == nil && column > 0 && indentOf(line) == column:
			list[len(list)-1][1] += " " + strings.TrimSpace(line)
		default:
			return nil
		}
	}
	return list
}

// proseWidth distinguishes indented prose from examples: lines are prose only if the longest of
// them has at least this many characters.
const proseWidth = 60

// paragraphsOf returns the paragraphs of indented prose, or nil if the lines are not prose. If the
// lines have different indentations, each line with the smallest indentation begins a paragraph.
func paragraphsOf(lines []string) (all []string) {
	least, most, longest := indentOf(lines[0]), 0, 0
	for _, line := range lines {
		least, most, longest = min(least, indentOf(line)), max(most, indentOf(line)), max(longest, len(line))
	}
	if longest < proseWidth {
		return nil
	}
	for i, line := range lines {
		text := strings.TrimSpace(line)
		if strings.Contains(text, "  ") {
			return nil
		}
		if i == 0 || strings.HasPrefix(text, "- ") || most > least && indentOf(line) == least {
			all = append(all, text)
		} else {
			all[len(all)-1] += " " + text
		}
	}
	return all
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// macro writes a formatter request with its arguments.
func (p *Page) macro(name string, arguments ...string) {
	p.b.WriteString("." + name)
	for _, a := range arguments {
		p.b.WriteString(` "` + escape(a) + `"`)
	}
	p.b.WriteByte('\n')
}

// special replaces the characters that a formatter would interpret, or would print as other
// characters.
var special = strings.NewReplacer(`\`, `\(rs`, "-", `\-`, `"`, `\(dq`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "\n", " ", "\t", " ", "\r", " ")

// escape escapes text for use in one line. The line then cannot begin a formatter request.
func escape(text string) string {
	var b strings.Builder
	for _, r := range special.Replace(text) {
		if r < ' ' || r > '~' {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		} else {
			b.WriteRune(r)
		}
	}
	if s := b.String(); strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return b.String()
}
