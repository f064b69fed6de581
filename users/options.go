package users

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// keyOptions holds the options of a line in an authorized_keys file.
type keyOptions struct {
	from       []pattern // addresses from which the key may be used; nil means all
	expires    time.Time // time from which the key is not accepted; the zero time means never
	command    string    // forced command, as in the option; "" means that no command is forced
	authority  bool      // the key belongs to an authority, whose certificates are accepted
	principals []string  // with authority: names that a certificate may contain instead of the user's name
	noTouch    bool      // a security key need not be touched
	verify     bool      // a security key must have asked for a PIN or a fingerprint
}

// noEffect lists options for features that this server does not have: terminals, shells,
// forwarding. It makes no difference whether such an option allows or denies its feature.
const noEffect = " restrict pty port-forwarding agent-forwarding x11-forwarding user-rc "

// parseKeyOptions parses the options that precede a key: see sshd(8). An unknown option is an
// error, because it may be a restriction.
func parseKeyOptions(s string) (o keyOptions, err error) {
	seen := map[string]bool{}
	for {
		end := strings.IndexAny(s, "=,")
		if end < 0 {
			end = len(s)
		}
		name := strings.ToLower(s[:end])
		s = s[end:]
		if strings.HasPrefix(s, "=") {
			var value string
			if value, s, err = unquote(s[1:]); err != nil {
				return o, fmt.Errorf("option %s=: %w", name, err)
			}
			if seen[name] && name != "environment" && name != "permitopen" && name != "permitlisten" {
				return o, fmt.Errorf("option %s= is given twice", name)
			}
			seen[name] = true
			err = o.set(name, value)
		} else {
			err = o.flag(name)
		}
		switch {
		case err != nil:
			return o, err
		case s == "":
			return o, o.check()
		case s[0] != ',':
			return o, fmt.Errorf("option %s is followed by neither a comma nor white space", name)
		}
		s = s[1:]
	}
}

// unquote parses a value in double quotes. In it, \" stands for a quote, and any other backslash
// for itself.
func unquote(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errors.New("the value is not in quotes")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '"':
			i++
			b.WriteByte('"')
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", errors.New("the value's closing quote is missing")
}

func (o *keyOptions) flag(name string) error {
	switch name {
	case "cert-authority":
		o.authority = true
	case "no-touch-required":
		o.noTouch = true
	case "touch-required":
		o.noTouch = false
	case "verify-required":
		o.verify = true
	case "no-verify-required":
		o.verify = false
	default:
		what := strings.TrimPrefix(name, "no-")
		if what == "" || name == "no-restrict" || strings.Contains(what, " ") || !strings.Contains(noEffect, " "+what+" ") {
			return fmt.Errorf("option %q is not known", name)
		}
	}
	return nil
}

func (o *keyOptions) set(name, value string) (err error) {
	if value == "" {
		return fmt.Errorf("option %s= is empty", name)
	}
	switch name {
	case "from":
		o.from, err = parsePatterns(value)
	case "expiry-time":
		o.expires, err = parseExpiry(value)
	case "command":
		o.command = value
	case "principals":
		o.principals = strings.Split(value, ",")
		if slices.Contains(o.principals, "") {
			return errors.New("principals= has an empty name")
		}
	case "environment", "permitopen", "permitlisten", "tunnel": // no effect, like the options in noEffect
	default:
		return fmt.Errorf("option %q is not known", name+"=")
	}
	return err
}

// check returns an error if options contradict each other, or if one of them has an invalid value.
func (o *keyOptions) check() error {
	if o.principals != nil && !o.authority {
		return errors.New("principals= is for a cert-authority only; it does not restrict a key")
	}
	if o.command != "" {
		_, err := parseCommand(o.command, "user") // the user name does not matter for the check
		return err
	}
	return nil
}

// parseExpiry parses YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS. The time is in the time zone of this
// machine or, if a Z follows, in UTC.
func parseExpiry(s string) (time.Time, error) {
	digits, utc := strings.CutSuffix(s, "Z")
	zone := time.Local
	if utc {
		zone = time.UTC
	}
	layout := "20060102150405"
	if n := len(digits); n == 8 || n == 12 || n == 14 {
		// Times before the epoch are invalid, as in OpenSSH: here the zero Time means "never".
		if t, err := time.ParseInLocation(layout[:n], digits, zone); err == nil && t.Unix() > 0 {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("expiry-time=%q is no time such as 20271231 or 202712312359Z", s)
}
