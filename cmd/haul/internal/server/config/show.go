package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/server/hooks"
)

// Write writes the settings as a configuration file that has the same effect. If origins is true,
// each line shows where its value comes from. Defaults are commented out. If a value is not UTF-8,
// Write returns an error, because a TOML file has to be UTF-8.
func (s *Settings) Write(out io.Writer, origins bool) error {
	return s.write(out, origins, func(*Setting) bool { return true })
}

// WriteGiven writes the settings that were set explicitly.
func (s *Settings) WriteGiven(out io.Writer) error {
	return s.write(out, false, (*Setting).given)
}

// write writes the wanted settings, table by table.
func (s *Settings) write(out io.Writer, origins bool, wanted func(*Setting) bool) error {
	var b strings.Builder
	for _, table := range append([]string{""}, s.tables()...) {
		header := table != ""
		for _, one := range s.all {
			of, name, below := strings.Cut(one.Key, ".")
			if !below {
				of, name = "", one.Key
			}
			if of != table || !wanted(one) || one.value.kind == kindTables {
				continue
			}
			if text := one.value.get(); !utf8.ValidString(text) {
				return fmt.Errorf("%s is %q, which is not UTF-8: a file cannot have it; leave it to flags, or rename what it names", one.Key, text)
			}
			if header {
				fmt.Fprintf(&b, "\n[%s]\n", table)
				header = false
			}
			s.writeLine(&b, one, name, origins)
		}
	}
	if err := s.writeHooks(&b, origins); err != nil {
		return err
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeHooks writes a table for each hook.
func (s *Settings) writeHooks(b *strings.Builder, origins bool) error {
	for i, h := range s.config.Notify.Hooks {
		if text := h.String(); !utf8.ValidString(text) {
			return fmt.Errorf("the hook %q is not UTF-8: a file cannot have it", text)
		}
		fmt.Fprintf(b, "\n[[%s]]", hookTable)
		if origins {
			at := s.find(hookTable).origin
			if i < len(s.hookTables) {
				at = s.hookTables[i]
			}
			fmt.Fprintf(b, "  # %s", at)
		}
		b.WriteByte('\n')
		for _, field := range hooks.Fields {
			var parts []string
			for _, p := range h.Get(field) {
				parts = append(parts, quote(p))
			}
			switch {
			case len(parts) == 0:
			case hooks.IsList(field):
				fmt.Fprintf(b, "%s = [%s]\n", field, strings.Join(parts, ", "))
			default:
				fmt.Fprintf(b, "%s = %s\n", field, parts[0])
			}
		}
	}
	return nil
}

func (s *Settings) writeLine(b *strings.Builder, one *Setting, name string, origins bool) {
	if !one.given() {
		b.WriteString("# ")
	}
	fmt.Fprintf(b, "%s = %s", name, cmp.Or(one.value.toml(), "(none)"))
	if origins {
		fmt.Fprintf(b, "  # %s", one.origin)
	}
	b.WriteByte('\n')
}

// toml returns a value in TOML syntax, or "" for a list that was not set and has no default.
func (v *value) toml() string {
	text := v.get()
	switch v.kind {
	case kindBool, kindNumber:
		return text
	case kindEither:
		if strings.Trim(text, "0123456789") == "" {
			return text
		}
	case kindList:
		if len(v.list.given) == 0 && v.list.defaults {
			return ""
		}
		parts := make([]string, len(v.list.given))
		for i, p := range v.list.given {
			parts[i] = quote(p)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return quote(text)
}

// quote returns a text in quotes. TOML supports the escapes of JSON, but requires an escape for one
// more character, DEL.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // impossible for a string
		return ""
	}
	return strings.ReplaceAll(string(b), "\x7f", `\u007F`)
}
