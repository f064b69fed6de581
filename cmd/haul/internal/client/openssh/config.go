package openssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A reader reads configuration files for one destination. For most settings the first value counts,
// so it reads the sources in order of precedence: the command line, the user's file, the system's
// file.
type reader struct {
	ctx context.Context
	sys *system
	o   Overrides

	host     string // the host that Host patterns are compared with
	original string // the host as the user typed it
	final    bool   // the files are being read for the second time, now that the final name of the host is known

	values  map[string][]string // arguments of the settings, by keyword
	jump    []string            // hosts of ProxyJump; "none" if no jump host must be used
	command string              // ProxyCommand; "none" if no command must be used

	wantFinal bool // a file contains Match final, so the files have to be read again
	files     int  // number of files opened so far
	ignored   []string
}

// A place is the position of a line in the configuration.
type place struct {
	file string
	line int
	user bool // the file belongs to a user, so that ~ has a meaning
	used bool // the file applies to the host: no Include line that leads to it is in a block for other hosts
}

func (p place) fault(err error) error { return &ConfigError{File: p.file, Line: p.line, Err: err} }

// readAll reads the configuration files that ssh would read: the file of -F, or the user's file and
// the system's.
func (r *reader) readAll() error {
	switch r.o.File {
	case "":
	case "none":
		return nil
	default:
		return r.readFile(r.o.File, place{user: true, used: true}, 0, func(_ fs.FileInfo, err error) error { return err })
	}
	if exists(r.sys.userConfig) {
		if err := r.readFile(r.sys.userConfig, place{user: true, used: true}, 0, r.checkIncluded); err != nil {
			return err
		}
	}
	if !exists(r.sys.systemConfig) {
		return nil
	}
	// This file belongs to the administrator, so its owner and mode are not checked.
	return r.readFile(r.sys.systemConfig, place{used: true}, 0, func(_ fs.FileInfo, err error) error { return err })
}

// readFile reads and applies a configuration file, unless the function vet refuses the file. It
// passes vet the result of Stat.
func (r *reader) readFile(name string, at place, depth int, vet func(fs.FileInfo, error) error) error {
	at.file, at.line = name, 0
	if depth > maxDepth {
		return at.fault(fmt.Errorf("includes are %d deep, and %d is the most", depth, maxDepth))
	}
	if r.files++; r.files > maxConfigFiles {
		return at.fault(fmt.Errorf("more than %d files are included", maxConfigFiles))
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return at.fault(err)
	}
	defer f.Close()
	if err := vet(f.Stat()); err != nil {
		return at.fault(err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return at.fault(err)
	}
	if len(text) > maxConfigFile {
		return at.fault(fmt.Errorf("it has more than %d bytes", maxConfigFile))
	}
	return r.readText(text, at, depth)
}

func (r *reader) readText(text []byte, at place, depth int) error {
	var faults []error
	active := at.used
	for line := range bytes.Lines(text) {
		at.line++
		err := r.readLine(string(line), at, &active, depth)
		if err == nil {
			continue
		}
		if _, included := errors.AsType[*ConfigError](err); included {
			// Do not add the position of each Include line: if a file includes itself, there are too
			// many of them.
			return err
		}
		if faults = append(faults, at.fault(err)); len(faults) == maxFaults {
			break
		}
	}
	return errors.Join(faults...)
}

// readLine checks one line. It applies the line's setting if *active is set. A Host or Match line
// sets *active for the lines after it.
func (r *reader) readLine(line string, at place, active *bool, depth int) error {
	keyword, rest := splitLine(line)
	if keyword == "" {
		return nil
	}
	if rest == "" {
		return fmt.Errorf("%s has no argument", printable(keyword))
	}
	args, err := splitArgs(rest)
	if err != nil {
		return err
	}
	switch keyword {
	case "host":
		*active = matchAny(r.host, args) && at.used
		return nil
	case "match":
		ok, err := r.matchLine(rest, at.used)
		*active = ok && at.used
		return err
	case "include":
		return r.include(args, at, *active, depth)
	}
	return r.set(keyword, rest, args, *active, at)
}

// set checks a setting. If active is set, it stores the setting, unless an earlier line has set it.
func (r *reader) set(name, rest string, args []string, active bool, at place) error {
	switch name {
	case "proxycommand":
		if rest = strings.TrimLeft(rest, space+"="); rest == "" {
			return errMissing
		}
		if active && r.command == "" && r.jump == nil {
			r.command = rest
		}
		return nil
	case "proxyjump":
		return r.setJump(args, active)
	}
	k, ok := keywords[name]
	if !ok {
		if ignore := r.values["ignoreunknown"]; ignore != nil && matchList(name, strings.ToLower(ignore[0])) {
			return nil
		}
		return fmt.Errorf("there is no setting %q; if another ssh has it, write IgnoreUnknown %s before it", name, printable(name))
	}
	if k.same != "" {
		name = k.same
		k = keywords[name]
	}
	if k.unused {
		return nil
	}
	if err := k.check(args); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch _, set := r.values[name]; {
	case !active:
	case k.noted:
		r.note(name, args, at)
	case k.multi:
		return r.add(name, args[0])
	case !set:
		r.values[name] = args
	}
	return nil
}

// add appends the name of a file of keys or certificates to a setting, which may have several
// values.
func (r *reader) add(name, file string) error {
	if slices.Contains(r.values[name], file) {
		return nil
	}
	if len(r.values[name]) == maxIdentities {
		return fmt.Errorf("%s: there are more than %d", name, maxIdentities)
	}
	r.values[name] = append(r.values[name], file)
	return nil
}

// note records, for Destination.Ignored, a setting that has an effect in ssh but not in haul.
func (r *reader) note(name string, args []string, at place) {
	where := "command line"
	if at.file != "" {
		where = fmt.Sprintf("%s:%d", at.file, at.line)
	}
	s := fmt.Sprintf("%s (%s)", name, where)
	if !isOff(args) && !slices.Contains(r.ignored, s) && len(r.ignored) < maxIgnored {
		r.ignored = append(r.ignored, s)
	}
}

// setJump stores a ProxyJump, unless a ProxyJump or a ProxyCommand is set already.
func (r *reader) setJump(args []string, active bool) error {
	return one(func(arg string) error {
		hops := []string{"none"}
		if !strings.EqualFold(arg, "none") {
			hops = strings.Split(arg, ",")
			if len(hops) > maxJumps {
				return fmt.Errorf("%d jump hosts, and %d are the most", len(hops), maxJumps)
			}
			for _, h := range hops {
				// The values of tokens are not known yet, so check the host with "x" in place of
				// each percent sign.
				if _, err := ParseTarget(strings.ReplaceAll(h, "%", "x")); err != nil {
					return fmt.Errorf("proxyjump: %w", err)
				}
			}
		}
		if active && r.jump == nil && r.command == "" {
			r.jump = hops
		}
		return nil
	})(args)
}

// include reads other files at the position of the Include line. As in ssh, it reads and checks
// files even if the block around the line does not apply.
func (r *reader) include(args []string, at place, active bool, depth int) error {
	if err := many(args); err != nil {
		return err
	}
	for _, pattern := range args {
		switch {
		case pattern[0] == '~' && !at.user:
			return fmt.Errorf("include %s: there is no ~ in the system's configuration", pattern)
		case pattern[0] == '~':
			var err error
			if pattern, err = r.sys.expandHome(pattern); err != nil {
				return fmt.Errorf("include: %w", err)
			}
		case filepath.IsAbs(pattern):
		case at.user:
			pattern = filepath.Join(r.sys.home, ".ssh", pattern)
		default:
			pattern = filepath.Join(r.sys.systemDir, pattern)
		}
		names, err := filepath.Glob(pattern) // sorted
		if err != nil {
			return fmt.Errorf("include %s: %w", pattern, err)
		}
		for _, name := range names {
			at.used = active
			if err := r.readFile(name, at, depth+1, r.checkIncluded); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkIncluded refuses files that cannot be configuration, such as a pipe that never ends, and
// files that others may write to.
func (r *reader) checkIncluded(info fs.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	}
	return r.sys.checkConfigOwner(info)
}
