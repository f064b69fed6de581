package users

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
)

// A command is a parsed forced command. The only program that may be forced is the SFTP server, and
// only two of its options have an effect: see sftp-server(8).
type command struct {
	readOnly bool   // option -R: the user may not change anything
	dir      string // argument of -d, with %d and %u replaced: absolute and clean; "" without -d
}

const sftpCommand = "internal-sftp"

// parseCommand parses a forced command for the login of a user. Any command but internal-sftp is an
// error, because it would have to run instead of SFTP, and this server never runs commands.
func parseCommand(s, user string) (c command, err error) {
	if strings.ContainsAny(s, `"'\`) || strings.ContainsFunc(s, unicode.IsControl) {
		return c, fmt.Errorf("the forced command %q has quotes, backslashes or control characters in it", s)
	}
	words := strings.Fields(s)
	if len(words) == 0 || words[0] != sftpCommand {
		return c, fmt.Errorf("the command %q is forced, but only %s can be", s, sftpCommand)
	}
	for words = words[1:]; len(words) > 0; {
		flags, ok := strings.CutPrefix(words[0], "-")
		if !ok || flags == "" {
			return c, fmt.Errorf("the forced command %q has an argument that is no option", s)
		}
		words = words[1:]
		for flags != "" {
			flag := flags[0]
			flags = flags[1:]
			switch flag {
			case 'R':
				c.readOnly = true
				continue
			case 'e': // log to stderr; ignored
				continue
			case 'd', 'f', 'l':
				// Each of these options has an argument: -d the initial directory, -f and -l the
				// facility and the level of the log. The last two are ignored, because the log is
				// configured elsewhere.
			default:
				return c, fmt.Errorf("the forced command %q has the option -%c; -R, -d, -e, -f and -l are known", s, flag)
			}
			arg := flags // the rest of the word, as in -dDIR
			if flags = ""; arg == "" {
				if len(words) == 0 {
					return c, fmt.Errorf("the forced command %q ends before the argument of -%c", s, flag)
				}
				arg, words = words[0], words[1:] // the next word, as in -d DIR
			}
			if flag == 'd' {
				if c.dir, err = startDir(arg, user); err != nil {
					return c, fmt.Errorf("the forced command %q: %w", s, err)
				}
			}
		}
	}
	return c, nil
}

// startDir returns the directory for -d. The result is always below the user's root, because both
// the home directory and "/" mean that root.
func startDir(s, user string) (string, error) {
	// %d stands for the home directory, which is the root itself.
	dir, ok := replaceTokens(s, user, "/")
	if !ok {
		return "", errors.New("after % in -d only d, u and another % are known")
	}
	return path.Clean("/" + dir), nil
}
