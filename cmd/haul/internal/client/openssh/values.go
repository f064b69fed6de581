package openssh

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A check checks the arguments of a keyword. Its error says why they are wrong.
type check func(args []string) error

var errMissing = errors.New("the argument is missing")

// one returns a check that there is exactly one argument, and that f accepts the argument.
func one(f func(arg string) error) check {
	return func(args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return errMissing
		case len(args) > 1:
			return fmt.Errorf("%q is an argument too many", args[1])
		}
		return f(args[0])
	}
}

// many is a check that there is at least one argument, and that no argument is empty.
func many(args []string) error {
	if len(args) == 0 || slices.Contains(args, "") {
		return errMissing
	}
	return nil
}

// files is the check for lists of files. It does the same as many. In addition, there may be at
// most maxKnownFiles arguments, and "none" may only stand alone.
func files(args []string) error {
	if len(args) > 1 && slices.Contains(args, "none") {
		return errors.New(`"none" must be alone`)
	}
	if len(args) > maxKnownFiles {
		return fmt.Errorf("%d files, and %d are the most", len(args), maxKnownFiles)
	}
	return many(args)
}

// oneOf returns a check that there is exactly one argument, and that the argument is one of the
// words.
func oneOf(words ...string) check {
	return one(func(arg string) error {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(arg, w) }) {
			return fmt.Errorf("%q is none of %s", arg, strings.Join(words, ", "))
		}
		return nil
	})
}

var (
	word    = one(func(string) error { return nil })
	yesNo   = oneOf("yes", "no", "true", "false")
	seconds = one(func(arg string) error {
		_, err := parseTime(arg)
		return err
	})
	port = one(func(arg string) error {
		_, err := parsePort(arg)
		return err
	})
	number = one(func(arg string) error {
		_, err := parseNumber(arg)
		return err
	})
)

// isYes reports whether an argument means yes. [yesNo] must have accepted the argument.
func isYes(arg string) bool {
	return strings.EqualFold(arg, "yes") || strings.EqualFold(arg, "true")
}

func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q is none of 1 to 65535", s)
	}
	return int(n), nil
}

func parseNumber(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number from 0", s)
	}
	return int(n), nil
}

// maxTime is the longest time that the configuration can set. OpenSSH stores the seconds in an int
// of 32 bits.
const maxTime = math.MaxInt32 * time.Second

// parseTime reads a time such as 90, 90s or 1m30s; see TIME FORMATS in sshd_config(5). "none" is 0.
func parseTime(s string) (time.Duration, error) {
	if s == "none" {
		return 0, nil
	}
	bad := fmt.Errorf("%q is no time: write 90, 90s or 1m30s", s)
	var total time.Duration
	for rest := s; ; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 32)
		if err != nil {
			return 0, bad
		}
		unit := time.Second
		if rest = rest[digits:]; rest != "" {
			switch rest[0] | 0x20 {
			case 's':
			case 'm':
				unit = time.Minute
			case 'h':
				unit = time.Hour
			case 'd':
				unit = 24 * time.Hour
			case 'w':
				unit = 7 * 24 * time.Hour
			default:
				return 0, bad
			}
			rest = rest[1:]
		}
		if time.Duration(n) > maxTime/unit || total > maxTime-time.Duration(n)*unit {
			return 0, bad
		}
		total += time.Duration(n) * unit
		if rest == "" {
			return total, nil
		}
	}
}

// minRekey is the smallest number of bytes between two key exchanges. With a smaller number, a
// transfer would consist mostly of key exchanges.
const minRekey = 1 << 20

// rekeyLimit checks the arguments of RekeyLimit: a number of bytes, and optionally a time.
func rekeyLimit(args []string) error {
	if len(args) == 2 {
		if _, err := parseTime(args[1]); err != nil {
			return err
		}
		args = args[:1]
	}
	return one(func(arg string) error {
		_, err := parseBytes(arg)
		return err
	})(args)
}

// parseBytes reads a number of bytes with an optional suffix K, M or G. "default" and "none" are 0.
func parseBytes(s string) (uint64, error) {
	if s == "default" || s == "none" {
		return 0, nil
	}
	digits, shift := s, 0
	if s != "" {
		if i := strings.IndexByte("kmg", s[len(s)-1]|0x20); i >= 0 {
			digits, shift = s[:len(s)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 33)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of bytes", s)
	}
	if n <<= shift; n > 0 && n < minRekey {
		n = minRekey
	}
	return n, nil
}
