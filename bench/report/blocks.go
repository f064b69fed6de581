package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// readmeBlock is the name of README's block. Its markers contain no name: they are "<!--
// bench:begin -->" and "<!-- bench:end -->".
const readmeBlock = ""

// Readme replaces the block of a document between the lines "<!-- bench:begin -->" and "<!--
// bench:end -->" with README's figures. Unless the document has both markers once and in this
// order, Readme changes nothing and returns an error.
func (r *Report) Readme(path string) error {
	return rewrite(path, func(doc string) (string, error) { return replaced(doc, readmeBlock, r.Summary()) })
}

// Docs replaces every block of a document between "<!-- bench:NAME:begin -->" and "<!--
// bench:NAME:end -->" with the tables of that name: all tables of a section ("many", "goals"), or a
// single table ("many-cpu"). If there is no such block, a block is not closed, or a name is
// unknown, Docs changes nothing and returns an error.
func (r *Report) Docs(path string) error {
	return rewrite(path, r.docs)
}

// marker matches the marker at the beginning or the end of a block, and captures the block's name.
var marker = regexp.MustCompile(`<!-- bench:([^ ]+):(?:begin|end) -->`)

func (r *Report) docs(doc string) (string, error) {
	var names []string
	for _, m := range marker.FindAllStringSubmatch(doc, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("it has no block to replace; put %s and %s around one", begin("NAME"), end("NAME"))
	}
	blocks := r.blocks()
	for _, name := range names {
		block, ok := blocks[name]
		if !ok {
			return "", fmt.Errorf("no table is called %q; there are %s", name, strings.Join(sorted(blocks), ", "))
		}
		var err error
		if doc, err = replaced(doc, name, block); err != nil {
			return "", err
		}
	}
	return doc, nil
}

// blocks returns the content for every possible block, by the name of the block.
func (r *Report) blocks() map[string]string {
	all := map[string]string{"headline": r.Headline()}
	for _, s := range append(r.Sections(), r.appendix()) {
		for _, t := range s.Tables {
			all[t.Name] = t.markdown()
		}
	}
	// A section replaces a table of the same name, because the section contains that table.
	for _, s := range append(r.Sections(), r.appendix()) {
		all[s.Name] = s.block()
	}
	return all
}

func sorted(blocks map[string]string) []string {
	var names []string
	for name := range blocks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func begin(name string) string { return "<!-- bench:" + prefixed(name) + "begin -->" }
func end(name string) string   { return "<!-- bench:" + prefixed(name) + "end -->" }

func prefixed(name string) string {
	if name == readmeBlock {
		return ""
	}
	return name + ":"
}

// replaced returns the document with text between the markers of the block `name`.
func replaced(doc, name, text string) (string, error) {
	from, to := begin(name), end(name)
	if strings.Count(doc, from) != 1 || strings.Count(doc, to) != 1 {
		return "", fmt.Errorf("it must have %s and %s once each, around the table to replace", from, to)
	}
	before, rest, _ := strings.Cut(doc, from)
	_, after, found := strings.Cut(rest, to)
	if !found {
		return "", fmt.Errorf("%s stands before %s", to, from)
	}
	return before + from + "\n\n" + strings.TrimSpace(text) + "\n\n" + to + after, nil
}

// rewrite changes a document in one step, so that readers never find an incomplete document.
func rewrite(path string, change func(string) (string, error)) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	doc, err := change(string(old))
	if err != nil {
		return fmt.Errorf("tables of %s: %w", path, err)
	}
	if doc == string(old) {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return replaceFile(path, doc, info.Mode().Perm())
}

func replaceFile(path, content string, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after a success, there is no file of this name any more
	_, err = f.WriteString(content)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
