//go:build linux

package interop

import (
	"fmt"
	"strings"
	"testing"
)

// parseYAML parses the documents of a file in the subset of YAML that the examples use: maps,
// lists and scalars in block style, with comments on separate lines. Values are map[string]any,
// []any and string.
func parseYAML(text string) (docs []any, err error) {
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var p yamlParser
		for line := range strings.SplitSeq(doc, "\n") {
			content := strings.TrimLeft(line, " ")
			if content == "" || content[0] == '#' {
				continue
			}
			p.lines = append(p.lines, yamlLine{len(line) - len(content), content})
		}
		v, err := p.value(0)
		if err != nil {
			return nil, err
		}
		if len(p.lines) > 0 {
			return nil, fmt.Errorf("%q is not below anything", p.lines[0].text)
		}
		docs = append(docs, v)
	}
	return docs, nil
}

type yamlLine struct {
	indent int
	text   string
}

// A yamlParser parses one document, line by line.
type yamlParser struct{ lines []yamlLine }

// value parses a value with at least the given indentation.
func (p *yamlParser) value(least int) (any, error) {
	if len(p.lines) == 0 || p.lines[0].indent < least {
		return "", nil
	}
	at := p.lines[0].indent
	if strings.HasPrefix(p.lines[0].text, "- ") {
		return p.list(at)
	}
	m := map[string]any{}
	for len(p.lines) > 0 && p.lines[0].indent == at && !strings.HasPrefix(p.lines[0].text, "- ") {
		key, rest, ok := strings.Cut(p.lines[0].text, ":")
		if !ok || rest != "" && rest[0] != ' ' {
			return nil, fmt.Errorf("%q has no key", p.lines[0].text)
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("%q is there twice", key)
		}
		p.lines = p.lines[1:]
		if rest = strings.TrimSpace(rest); rest != "" {
			m[key] = strings.Trim(rest, `"`)
			continue
		}
		v, err := p.value(at + 1)
		if err != nil {
			return nil, err
		}
		m[key] = v
	}
	return m, nil
}

// list parses a list whose dashes are in a column.
func (p *yamlParser) list(at int) (any, error) {
	var l []any
	for len(p.lines) > 0 && p.lines[0].indent == at && strings.HasPrefix(p.lines[0].text, "- ") {
		item := strings.TrimPrefix(p.lines[0].text, "- ")
		if !strings.Contains(item, ": ") && !strings.HasSuffix(item, ":") {
			l = append(l, strings.Trim(item, `"`))
			p.lines = p.lines[1:]
			continue
		}
		p.lines[0] = yamlLine{at + 2, item} // the first key of a map
		v, err := p.value(at + 2)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	return l, nil
}

// part returns the value at a path of keys and list indices, joined by dots.
func part[T any](t *testing.T, v any, path string) T {
	t.Helper()
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(in) {
				t.Fatalf("no item %s in %s", key, path)
			}
			v = in[i]
		}
	}
	got, ok := v.(T)
	if !ok {
		t.Fatalf("%s is %#v", path, v)
	}
	return got
}
