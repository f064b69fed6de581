package sftpserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Umask is the value of -u. Without -u, the process keeps its umask.
type Umask struct {
	bits  int
	given bool
}

// Set sets the umask to an octal number, from 0 to 777.
func (u *Umask) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q is no umask: an octal number up to 777", text)
	}
	u.bits, u.given = int(n), true
	return nil
}

// String returns the umask as an octal number, or "" without -u.
func (u *Umask) String() string {
	if !u.given {
		return ""
	}
	return fmt.Sprintf("%03o", u.bits)
}

// Type returns the placeholder for the value in the help.
func (*Umask) Type() string { return "UMASK" }

// A Level says which messages are logged: those of this level and of the levels before it.
type Level int

// These are the levels of sshd_config(5), under LogLevel.
const (
	levelQuiet Level = iota
	levelFatal
	levelError
	levelInfo
	levelVerbose
	levelDebug
	levelDebug2
	levelDebug3
)

// DefaultLevel is the default of OpenSSH's sftp-server.
const DefaultLevel = levelError

var levels = []string{"QUIET", "FATAL", "ERROR", "INFO", "VERBOSE", "DEBUG", "DEBUG2", "DEBUG3"}

// Set sets the level by its name, in any case.
func (l *Level) Set(text string) error {
	name := strings.ToUpper(text)
	if name == "DEBUG1" {
		name = "DEBUG"
	}
	n := slices.Index(levels, name)
	if n < 0 {
		return fmt.Errorf("%q is no level: %s", text, strings.Join(levels, ", "))
	}
	*l = Level(n)
	return nil
}

// String returns the name of the level.
func (l *Level) String() string { return levels[*l] }

// Type returns the placeholder for the value in the help.
func (*Level) Type() string { return "LEVEL" }

// A Facility is the syslog facility of messages, by its number (RFC 5424, section 6.2.1).
type Facility int

// DefaultFacility is AUTH, the default of OpenSSH's sftp-server.
const DefaultFacility Facility = 4

var facilities = map[string]Facility{
	"USER": 1, "DAEMON": 3, "AUTH": 4, "AUTHPRIV": 10,
	"LOCAL0": 16, "LOCAL1": 17, "LOCAL2": 18, "LOCAL3": 19, "LOCAL4": 20, "LOCAL5": 21, "LOCAL6": 22, "LOCAL7": 23,
}

// Set sets the facility by its name, in any case.
func (f *Facility) Set(text string) error {
	n, ok := facilities[strings.ToUpper(text)]
	if !ok {
		return fmt.Errorf("%q is no facility: DAEMON, USER, AUTH, AUTHPRIV, LOCAL0 to LOCAL7", text)
	}
	*f = n
	return nil
}

// String returns the name of the facility.
func (f *Facility) String() string {
	for name, n := range facilities {
		if n == *f {
			return name
		}
	}
	return ""
}

// Type returns the placeholder for the value in the help.
func (*Facility) Type() string { return "FACILITY" }
