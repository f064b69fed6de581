// Package config assembles the configuration of a server from four places: the defaults, a file,
// environment variables, and command-line flags. If several of them contain a setting, the last one
// applies.
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

// AddFlags adds a flag for each setting. Each flag has two names, such as --single-port and,
// derived from its key, --tftp-single-port.
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

// Sources holds the sources from which settings get their values: the arguments, the flags, the
// environment and the file.
type Sources struct {
	Dirs   []string                    // the arguments of the command
	Given  func(flag string) bool      // reports whether a flag was set on the command line
	Lookup func(string) (string, bool) // looks up an environment variable, as os.LookupEnv does
	File   string                      // the path of the file; "" means no file

	// Environ is the environment, as returned by os.Environ. It is searched for misspelled
	// variables.
	Environ []string

	// Read reads the file; nil means that the file is read from the file system.
	Read func(name string) ([]byte, error)
}

// Resolve applies the file and the variables to settings without a flag, and returns the
// configuration. The flags have been parsed already. The error joins all mistakes, each a
// [failure.Usage], including those of [settings.Config.Check].
func (s *Settings) Resolve(from Sources) (settings.Config, error) {
	s.file, s.config.File = from.File, from.File
	s.fromFlags(from)
	wrong := append(s.fromVariables(from.Lookup), s.unknownVariables(from.Environ)...)
	if from.File != "" {
		some, err := s.fromFile(from.File, from.Read)
		if wrong = append(wrong, some...); err != nil {
			return s.config, join(append(wrong, mistake{err: err}))
		}
	}
	s.chooseProtocols()
	wrong = append(wrong, s.check()...)
	slices.SortStableFunc(wrong, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	return s.config, join(wrong)
}

func join(wrong []mistake) error {
	var all []error
	for _, one := range wrong {
		all = append(all, one.err)
	}
	return errors.Join(all...)
}

// check returns the mistakes in values that could be parsed. It leaves out mistakes that are only a
// consequence of values that could not be parsed, or of settings that have no effect.
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

// Set sets the setting with this key to a value, as if a file contained it at the position `at`.
// The error says why the value is invalid. Only a list may have several parts.
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

// line returns the line of the file that contains a mistake, or 0 if the mistake is elsewhere.
func (s *Settings) line(err error) int {
	if one := s.find(settingOf(err)); one != nil {
		return one.origin.Line
	}
	return 0
}

// settingOf returns the setting that a mistake is about, or "" if there is no single setting.
func settingOf(err error) failure.Flag {
	if mistake, ok := errors.AsType[*failure.Error](err); ok {
		return mistake.Setting
	}
	return ""
}

// fromFlags records which settings the command line has set, so that variables and the file do not
// change them.
func (s *Settings) fromFlags(from Sources) {
	for _, one := range s.all {
		switch {
		case one.Flag != "" && from.Given(one.Flag):
			one.origin = Origin{Flag: one.Flag}
		case one.Flag == "" && len(from.Dirs) > 0:
			one.origin = Origin{Argument: true}
			_ = one.value.list.set(from.Dirs...) // this cannot fail: the list accepts any text
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

// Located rewrites an error so that it names each setting by its source: by its flag, by its
// variable, or by its key in the file, with the line of the mistake.
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
	at := Origin{File: s.file} // if a file was read but no single setting is wrong, name settings by their keys
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

// FileName is the name of the configuration file in its directory.
const FileName = "haul.toml"

// DefaultFiles describes the paths of [DefaultFile], for help texts.
const DefaultFiles = "$CONFIGURATION_DIRECTORY/" + FileName + " or else /etc/haul/" + FileName

// DefaultFile returns the file that is read if none is named. That is haul.toml in the directory
// that systemd passes in CONFIGURATION_DIRECTORY, or otherwise in /etc/haul. If that file does not
// exist, DefaultFile returns "".
func DefaultFile() string {
	dir, _, _ := strings.Cut(os.Getenv("CONFIGURATION_DIRECTORY"), ":")
	name := filepath.Join(cmp.Or(dir, "/etc/haul"), FileName)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return name
}
