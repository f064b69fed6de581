// Package config assembles the configuration of a server from four places: the defaults, a file,
// environment variables, and command-line flags. If several of them have a setting, the last one
// wins.
//
// [Settings] is the only list of settings. Flags, keys of the file, variables, their completion,
// the table in the documentation and the output of "haul config show" are generated from it.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// A Setting is one setting of a server.
type Setting struct {
	Key   string // in the file, such as "tftp.single_port"
	Flag  string // without dashes, such as "single-port"; "" for the arguments of the command
	Group string // of the help; see [Groups]
	Help  string // one sentence without its period; a word in backquotes stands for the value

	letter  string   // the short flag
	words   []string // possible values, for completion
	without string   // the value of a flag without an argument
	value   *value
	initial string // the default, in text form

	origin  Origin
	refused bool // the given value cannot be read
}

// Groups are the groups of settings, in the order of the help.
var Groups = []string{"SFTP", "HTTP", "TFTP", "files", "boot", "limits", "ops"}

// Variable returns the name of the setting's environment variable.
func (s *Setting) Variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// LongFlag returns the other name of the flag, which is derived from the key.
func (s *Setting) LongFlag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key) }

// Default returns the default in text form; "" if there is none.
func (s *Setting) Default() string { return s.initial }

// Words returns the possible values, if there are only a few.
func (s *Setting) Words() []string { return s.words }

// Origin returns where the value comes from.
func (s *Setting) Origin() Origin { return s.origin }

// An Origin says where the value of a setting comes from. The zero Origin means the default.
type Origin struct {
	File         string // with Line and Column, from 1
	Line, Column int

	Variable string
	Flag     string // without dashes
	Argument bool   // an argument of the command
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

// Settings are all settings of one server, bound to its configuration.
type Settings struct {
	all    []*Setting
	config settings.Config
	file   string // the path of the file that was read; "" if there was none

	hookTables []Origin // the origins of the hooks, if tables of the file set them
}

// New returns the settings with their defaults.
func New() *Settings { return newSettings(settings.Default()) }

// NewBoot returns the settings with the defaults of "haul boot".
func NewBoot() *Settings {
	c := settings.Default()
	c.Boot.Answer = true
	return newSettings(c)
}

func newSettings(defaults settings.Config) *Settings {
	s := &Settings{config: defaults}
	s.all = s.table()
	for _, one := range s.all {
		one.initial = one.value.String()
	}
	return s
}

// All returns the settings, group by group.
func (s *Settings) All() []*Setting { return s.all }

// AddFlags adds a flag for each setting. Each flag has two names: --single-port and, after its key,
// --tftp-single-port.
func (s *Settings) AddFlags(flags *pflag.FlagSet) {
	short := map[string]string{}
	for _, one := range s.all {
		if one.Flag == "" {
			continue
		}
		short[one.LongFlag()] = one.Flag
		f := &pflag.Flag{Name: one.Flag, Shorthand: one.letter, Usage: one.Help, Value: one.value, DefValue: one.initial, NoOptDefVal: one.without}
		if one.value.kind == kindBool {
			f.NoOptDefVal = "true"
		}
		flags.AddFlag(f)
	}
	normal := flags.GetNormalizeFunc()
	flags.SetNormalizeFunc(func(set *pflag.FlagSet, name string) pflag.NormalizedName {
		return normal(set, cmp.Or(short[name], name))
	})
}

// Sources holds the input for settings: the arguments, the flags, the environment and the file.
type Sources struct {
	Dirs   []string                    // the arguments of the command
	Given  func(flag string) bool      // reports whether a flag was set on the command line
	Lookup func(string) (string, bool) // looks up an environment variable: os.LookupEnv
	File   string                      // "" means none

	// Environ is the environment, as returned by os.Environ. It is searched for misspelled
	// variables.
	Environ []string

	// Read reads the file; nil means a file of the system.
	Read func(name string) ([]byte, error)
}

// Resolve applies the file and the variables to settings without a flag, and returns the
// configuration. The flags have been parsed already. The error joins all mistakes, each a
// [failure.Usage], including those of [settings.Config.Check].
func (s *Settings) Resolve(from Sources) (settings.Config, error) {
	s.file = from.File
	s.fromFlags(from)
	wrong := append(s.fromVariables(from.Lookup), s.unknownVariables(from.Environ)...)
	if from.File != "" {
		s.config.Reload = true
		some, err := s.fromFile(from)
		if wrong = append(wrong, some...); err != nil {
			return s.config, join(append(wrong, mistake{err: err}))
		}
	}
	s.chooseProtocols()
	wrong = append(wrong, s.check()...)
	slices.SortStableFunc(wrong, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	return s.config, join(wrong)
}

// A mistake is a mistake in a configuration.
type mistake struct {
	line int // of the file; 0 if the mistake is elsewhere
	err  error
}

func join(wrong []mistake) error {
	var all []error
	for _, one := range wrong {
		all = append(all, one.err)
	}
	return errors.Join(all...)
}

// check returns the mistakes in values that can be read. It leaves out mistakes that follow from
// values that cannot be read, or from settings that have no effect.
func (s *Settings) check() (wrong []mistake) {
	useless := s.checkUseless()
	for i, err := range append(useless, failure.Joined(s.config.Check())...) {
		of := settingOf(err)
		follows := i >= len(useless) && slices.ContainsFunc(useless, func(other error) bool { return settingOf(other) == of })
		if one := s.find(of); one != nil {
			follows = follows || one.refused
		}
		for _, flag := range failure.Flags(err) {
			one := s.find(flag)
			follows = follows || one != nil && one.refused
		}
		if !follows {
			wrong = append(wrong, mistake{s.line(err), s.locate(err)})
		}
	}
	return wrong
}

// Set gives a setting a value, as if a file contained it at this position. A list takes several
// parts.
func (s *Settings) Set(key string, at Origin, parts ...string) error {
	i := slices.IndexFunc(s.all, func(one *Setting) bool { return one.Key == key })
	if i < 0 {
		return fmt.Errorf("there is no setting %s", key)
	}
	one := s.all[i]
	one.origin = at
	if one.value.list != nil {
		return one.value.list.set(parts...)
	}
	return one.value.Set(strings.Join(parts, ""))
}

// line returns the line of the file with a mistake; 0 if the mistake is elsewhere.
func (s *Settings) line(err error) int {
	if one := s.find(settingOf(err)); one != nil {
		return one.origin.Line
	}
	return 0
}

// settingOf returns the setting that a mistake is about; "" if there is no single setting.
func settingOf(err error) failure.Flag {
	if mistake, ok := errors.AsType[*failure.Error](err); ok {
		return mistake.Setting
	}
	return ""
}

// fromFlags records which settings the command line sets.
func (s *Settings) fromFlags(from Sources) {
	for _, one := range s.all {
		switch {
		case one.Flag != "" && from.Given(one.Flag):
			one.origin = Origin{Flag: one.Flag}
		case one.Flag == "" && len(from.Dirs) > 0:
			one.origin = Origin{Argument: true}
			_ = one.value.list.set(from.Dirs...) // accepts any text
		}
	}
}

// fromVariables sets the settings that no flag has set. An empty variable counts as not set.
func (s *Settings) fromVariables(lookup func(string) (string, bool)) (wrong []mistake) {
	for _, one := range s.all {
		text, ok := lookup(one.Variable())
		if !ok || text == "" || one.given() {
			continue
		}
		one.origin = Origin{Variable: one.Variable()}
		if err := one.value.Set(text); err != nil {
			one.refused = true
			wrong = append(wrong, mistake{err: one.mistake(fmt.Errorf("%s %q: %w", one.Variable(), text, err))})
		}
	}
	return wrong
}

// given reports whether a setting was set explicitly.
func (s *Setting) given() bool { return s.origin != Origin{} }

func (s *Setting) mistake(err error) error {
	return &failure.Error{Kind: failure.Usage, Setting: failure.Flag(cmp.Or(s.Flag, s.Key)), Err: err}
}

// find returns the setting with a flag or a key of this name; nil if there is none.
func (s *Settings) find(flag failure.Flag) *Setting {
	name := string(flag)
	i := slices.IndexFunc(s.all, func(one *Setting) bool { return name != "" && (one.Flag == name || one.Key == name) })
	if i < 0 {
		return nil
	}
	return s.all[i]
}

// Located rewrites an error for the places that the settings come from. Instead of flags it names
// variables, or keys of the file with the line of the mistake.
func (s *Settings) Located(err error) error {
	several := failure.Joined(err)
	if several == nil {
		return s.locate(err)
	}
	for i := range several {
		several[i] = s.locate(several[i])
	}
	return errors.Join(several...)
}

func (s *Settings) locate(err error) error {
	mistake, ok := errors.AsType[*failure.Error](err)
	if !ok {
		return err
	}
	at := Origin{File: s.file} // if no single setting is wrong, use the names in the file, if there is one
	if one := s.find(mistake.Setting); one != nil && one.given() {
		at = one.origin
	}
	text := failure.In(err, func(flag failure.Flag) string {
		one := s.find(flag)
		if one == nil || one.Flag == "" {
			return flag.String()
		}
		return one.nameFor(at)
	})
	switch {
	case at.Line > 0:
		text = at.String() + ": " + text
	case at.File != "" && mistake.Kind == failure.Usage:
		text = at.File + ": " + text
	}
	return failure.Reword(text, err)
}

// nameFor returns the name of a setting at the place that its value comes from, or by default at
// the place of the mistake. For a key of the file it adds the position if the mistake is elsewhere.
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

// FileName is the name of the configuration file in its directory.
const FileName = "haul.toml"

// DefaultFiles describes the paths of [DefaultFile], for help texts.
const DefaultFiles = "$CONFIGURATION_DIRECTORY/" + FileName + " or else /etc/haul/" + FileName

// DefaultFile returns the file that is read if none is named: haul.toml in the directory that
// systemd passes in CONFIGURATION_DIRECTORY, or otherwise in /etc/haul. It returns "" if that file
// does not exist.
func DefaultFile() string {
	dir, _, _ := strings.Cut(os.Getenv("CONFIGURATION_DIRECTORY"), ":")
	name := filepath.Join(cmp.Or(dir, "/etc/haul"), FileName)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return name
}
