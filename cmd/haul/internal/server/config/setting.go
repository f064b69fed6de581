package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// A Setting is one setting of a server: its names, its help, and its value with the origin.
type Setting struct {
	Key   string // key in the file, such as "tftp.single_port"
	Flag  string // name of the flag without dashes, such as "single-port"; "" for the arguments of the command
	Group string // group in the help; see [Groups]
	Help  string // a sentence without its period; the word in backquotes is the placeholder for the value

	letter  string   // the letter of the short flag; "" if the setting has none
	words   []string // possible values, for completion
	without string   // the value of a flag without an argument
	value   *value
	initial string // the default, as text

	origin  Origin
	refused bool // the value that was set could not be parsed
}

// Groups are the groups of settings, in the order of the help.
var Groups = []string{"SFTP", "HTTP", "TFTP", "files", "boot", "limits", "ops"}

// Variable returns the name of the setting's environment variable.
func (s *Setting) Variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// LongFlag returns the second name of the flag, which is derived from the key, such as
// "tftp-single-port".
func (s *Setting) LongFlag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key) }

// Default returns the default in text form, or "" if the setting has no default.
func (s *Setting) Default() string { return s.initial }

// Words returns the possible values, if there are only a few.
func (s *Setting) Words() []string { return s.words }

// Origin returns where the value comes from.
func (s *Setting) Origin() Origin { return s.origin }

// An Origin says where the value of a setting comes from. The zero Origin means the default.
type Origin struct {
	File         string // set if the value comes from a file; Line and Column count from 1
	Line, Column int

	Variable string
	Flag     string // set if the value comes from this flag; without dashes
	Argument bool   // the value comes from an argument of the command
}

// String returns the origin in the usual notation, such as "/etc/haul/haul.toml:7:1" or "--user".
func (o Origin) String() string {
	switch {
	case o.File != "":
		return fmt.Sprintf("%s:%d:%d", o.File, o.Line, o.Column)
	case o.Variable != "":
		return o.Variable
	case o.Flag != "":
		return "--" + o.Flag
	case o.Argument:
		return "argument"
	}
	return "default"
}

// Settings holds all settings of one server, bound to its configuration.
type Settings struct {
	all    []*Setting
	config settings.Config
	file   string // the path of the file that was read; "" if no file was read

	hookTables []Origin // positions of the [[hook]] tables, if the hooks come from the file
}

// All returns the settings, group by group.
func (s *Settings) All() []*Setting { return s.all }

// A mistake is an error in a configuration, with the line that contains it.
type mistake struct {
	line int // line in the file; 0 if the mistake is not in the file
	err  error
}

// given reports whether a setting was set explicitly.
func (s *Setting) given() bool { return s.origin != Origin{} }

func (s *Setting) mistake(err error) error {
	return &failure.Error{Kind: failure.Usage, Setting: failure.Flag(cmp.Or(s.Flag, s.Key)), Err: err}
}

// find returns the setting with a flag or a key of this name, or nil if there is no such setting.
func (s *Settings) find(flag failure.Flag) *Setting {
	name := string(flag)
	i := slices.IndexFunc(s.all, func(one *Setting) bool { return name != "" && (one.Flag == name || one.Key == name) })
	if i < 0 {
		return nil
	}
	return s.all[i]
}

// nameFor returns the name of a setting in the form that fits the source of its value: a flag, a
// variable or a key. For a setting with its default value, it uses the form that fits the source of
// the mistake. If the mistake is not in the file, it adds the position to a key of the file.
func (s *Setting) nameFor(mistake Origin) string {
	from := mistake
	if s.given() {
		from = s.origin
	}
	switch {
	case from.File != "" && mistake.File == "":
		return fmt.Sprintf("%s (%s)", s.Key, from)
	case from.File != "":
		return s.Key
	case from.Variable != "":
		return s.Variable()
	}
	return "--" + s.Flag
}

// variablePrefix is the prefix of the names of all variables.
const variablePrefix = "HAUL_"
