package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/system/smallfile"
)

// maxFile is the size limit of a configuration file, in bytes. The parser compares each key with
// all keys before it, so the time for a file that consists of keys is quadratic in its size.
const maxFile = 128 << 10

// maxText is the maximum length of a text as a value, in bytes. No path is longer, and errors
// repeat the text.
const maxText = 4 << 10

// maxMistakes is how many mistakes of a file are reported. A file that is not a configuration
// contains a mistake in each line.
const maxMistakes = 100

// fromFile sets the settings that neither flags nor variables have set. It returns all mistakes of
// the file; err is set if the file cannot be read.
func (s *Settings) fromFile(file string, read func(name string) ([]byte, error)) (wrong []mistake, err error) {
	if read == nil {
		read = func(name string) ([]byte, error) { return smallfile.ReadTrusted(name, maxFile) }
	}
	data, err := read(file)
	if err != nil {
		return nil, failure.Local.Errorf("read the configuration %s: %w", file, console.WithoutPath(err))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some Windows editors write a byte order mark
	// The parser below accepts some input that is not TOML, such as duplicate tables. So check here
	// that the whole file is valid.
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		at := Origin{File: file, Line: 1, Column: 1}
		if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
			at.Line, at.Column = bad.Position()
		}
		return nil, failure.Usage.Errorf("%s: %s", at, strings.TrimPrefix(err.Error(), "toml: "))
	}
	f := fileReader{settings: s, name: file}
	f.parser.Reset(data)
	for f.parser.NextExpression() && len(f.wrong) <= maxMistakes {
		f.expression(f.parser.Expression())
	}
	f.endHook()
	if err := f.parser.Error(); err != nil {
		return nil, failure.Usage.Errorf("%s: %w", file, err)
	}
	if len(f.wrong) > maxMistakes {
		return f.wrong[:maxMistakes], failure.Usage.Errorf("%s: more than %d mistakes; is this a configuration of haul?", file, maxMistakes)
	}
	return f.wrong, nil
}

// A fileReader reads a file of settings, and collects its mistakes.
type fileReader struct {
	settings *Settings
	name     string
	parser   unstable.Parser
	table    string // the name of the current table, followed by a period; "" before the first table
	skip     bool   // the current table is unknown, which was already reported, so its keys are skipped
	hooks    hookReader
	wrong    []mistake
}

func (f *fileReader) expression(e *unstable.Node) {
	switch e.Kind {
	case unstable.Table, unstable.ArrayTable:
		key, at := f.key(e)
		f.endHook()
		f.table = key + "."
		switch f.skip = true; {
		case key == hookTable && e.Kind == unstable.ArrayTable:
			f.skip = false
			f.beginHook(at)
		case key == hookTable:
			f.mistake(at, "[%s] is one of several tables, each of which begins with [[%[1]s]]", key)
		case !f.settings.hasTable(f.table):
			f.mistake(at, "there is no table [%s]%s", key, didYouMean(key, append(f.settings.tables(), hookTable)))
		case e.Kind == unstable.ArrayTable:
			f.mistake(at, "[[%s]] begins one of several tables, and there is only one: [%[1]s]", key)
		default:
			f.skip = false
		}
	case unstable.KeyValue:
		switch {
		case f.skip:
		case f.hooks.hook != nil:
			f.hookField(e)
		default:
			f.keyValue(f.table, e)
		}
	}
}

// keyValue reads a key with its value, which is a setting or an inline table of settings.
func (f *fileReader) keyValue(table string, e *unstable.Node) {
	key, at := f.key(e)
	v := e.Value()
	if v.Kind == unstable.InlineTable && f.settings.hasTable(table+key+".") {
		for it := v.Children(); it.Next() && len(f.wrong) <= maxMistakes; {
			f.keyValue(table+key+".", it.Node())
		}
		return
	}
	i := slices.IndexFunc(f.settings.all, func(one *Setting) bool { return one.Key == table+key })
	if i < 0 {
		f.unknown(table, key, at)
		return
	}
	one := f.settings.all[i]
	if one.given() {
		return // a flag or a variable has precedence
	}
	one.origin = at
	if err := f.set(one, v); err != nil {
		one.refused = true
		f.mistake(at, "%s %s: %w", one.Key, f.source(v), err)
	}
}

// key returns the dotted key of a table or a setting, and its position.
func (f *fileReader) key(e *unstable.Node) (key string, at Origin) {
	var parts []string
	at.File = f.name
	for it := e.Key(); it.Next(); {
		if len(parts) == 0 {
			start := f.parser.Shape(it.Node().Raw).Start
			at.Line, at.Column = start.Line, start.Column
		}
		parts = append(parts, keyPart(string(it.Node().Data)))
	}
	return abbreviate(strings.Join(parts, ".")), at
}

// bareKey matches a key that needs no quotes.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// keyPart returns a part of a dotted key, quoted if necessary: "tftp.listen" in quotes is not the
// key listen of the table tftp.
func keyPart(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

// maxQuoted is how many bytes of a key or a value a message repeats. All keys of settings are
// shorter.
const maxQuoted = 60

// abbreviate shortens a part of the file for a message.
func abbreviate(text string) string {
	if len(text) > maxQuoted {
		return strings.ToValidUTF8(text[:maxQuoted], "") + "..."
	}
	return text
}

// source describes a value of the file for a message, in TOML syntax. It abbreviates long values.
func (f *fileReader) source(v *unstable.Node) string {
	var text string
	switch v.Kind {
	case unstable.String:
		text = fmt.Sprintf("%q", v.Data)
	case unstable.Array:
		var parts []string
		for it := v.Children(); it.Next(); {
			parts = append(parts, f.source(it.Node()))
		}
		text = "[" + strings.Join(parts, ", ") + "]"
	case unstable.InlineTable:
		text = "{...}"
	default:
		text = console.Visible(string(v.Data))
	}
	return abbreviate(text)
}

// set sets the setting `one` to a value from the file.
func (f *fileReader) set(one *Setting, v *unstable.Node) error {
	text := string(v.Data)
	switch one.value.kind {
	case kindBool:
		if v.Kind != unstable.Bool {
			return errors.New("it is true or false, without quotes")
		}
	case kindNumber:
		if v.Kind != unstable.Integer {
			return errors.New("it is a whole number, without quotes")
		}
	case kindEither:
		if v.Kind != unstable.Integer && v.Kind != unstable.String {
			return errors.New("it is a whole number, or text in quotes")
		}
	case kindList, kindTables:
		parts, err := texts(v)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(parts, func(s string) bool { return len(s) > maxText }) {
			return errTooLong
		}
		return one.value.list.set(parts...)
	default:
		if v.Kind != unstable.String {
			example := ""
			if one.initial != "" {
				example = fmt.Sprintf(", such as %q", one.initial)
			}
			return errors.New("it is text in quotes" + example)
		}
	}
	if len(text) > maxText {
		return errTooLong
	}
	if v.Kind == unstable.Integer {
		n, err := strconv.ParseInt(text, 0, 64) // TOML writes integers as Go does
		if err != nil {
			return errors.New("the number is out of range")
		}
		text = strconv.FormatInt(n, 10)
	}
	return one.value.Set(text)
}

var errTooLong = fmt.Errorf("a text has at most %d bytes", maxText)

// texts returns the elements of an array of texts. A value that is a single text counts as an array
// with one element.
func texts(v *unstable.Node) (parts []string, err error) {
	if v.Kind == unstable.String {
		return []string{string(v.Data)}, nil
	}
	ok := v.Kind == unstable.Array
	for it := v.Children(); ok && it.Next(); {
		ok = it.Node().Kind == unstable.String
		parts = append(parts, string(it.Node().Data))
	}
	if !ok {
		return nil, errors.New(`it is a list of texts in quotes, such as ["a", "b"]`)
	}
	return parts, nil
}

// unknown reports a key that is not a setting.
func (f *fileReader) unknown(table, key string, at Origin) {
	where := "there is no key %s"
	if table != "" {
		where = "[" + strings.TrimSuffix(table, ".") + "] has no key %s"
	}
	f.mistake(at, where+"%s", key, f.nearest(table, key))
}

// nearest suggests a known key in place of an unknown one: the same key without a table, the key of
// the flag with this name, the same key in another table, or the most similar key.
func (f *fileReader) nearest(table, key string) string {
	var here, elsewhere []string
	for _, one := range f.settings.all {
		rest, below := strings.CutPrefix(one.Key, table)
		name := strings.ReplaceAll(key, "_", "-")
		switch last := one.Key[strings.LastIndexByte(one.Key, '.')+1:]; {
		case one.Key == key: // a setting has this key, but is not in this table
			return fmt.Sprintf("; %s stands above the first table", key)
		case one.Flag == name || one.LongFlag() == name:
			return fmt.Sprintf("; the setting --%s is %s", one.Flag, one.Key)
		case last == key:
			elsewhere = append(elsewhere, one.Key)
		}
		if below {
			here = append(here, rest)
		}
	}
	return cmp.Or(didYouMean(key, here), didYouMean(key, nil, elsewhere...))
}

// didYouMean returns a question that suggests the names in `near` and those of `names` that are
// most similar to a word. It returns "" if it has no name to suggest.
func didYouMean(word string, names []string, near ...string) string {
	if near = append(near, console.Nearest(word, names)...); len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

func (f *fileReader) mistake(at Origin, format string, args ...any) {
	f.wrong = append(f.wrong, mistake{at.Line, failure.Usage.Errorf("%s: %w", at, fmt.Errorf(format, args...))})
}

// tables returns the names of the tables that a configuration file may contain.
func (s *Settings) tables() (names []string) {
	for _, one := range s.all {
		if table, _, ok := strings.Cut(one.Key, "."); ok && !slices.Contains(names, table) {
			names = append(names, table)
		}
	}
	return names
}

// hasTable reports whether a prefix, which ends in a period, names a table.
func (s *Settings) hasTable(prefix string) bool {
	return slices.Contains(s.tables(), strings.TrimSuffix(prefix, "."))
}
