package openssh

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// tokens maps the letter of a percent token, such as %h for the host, to its value.
type tokens map[byte]string

// expand replaces percent tokens and, if env is not nil, ${NAME}. It does not expand tokens in the
// replacements.
func expand(s string, t tokens, env func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case env != nil && strings.HasPrefix(s[i:], "${"):
			name, _, ok := strings.Cut(s[i+2:], "}")
			if !ok || name == "" {
				return "", fmt.Errorf("%q has no whole ${NAME}", s)
			}
			value, ok := env(name)
			if !ok {
				return "", fmt.Errorf("%q needs the environment variable %s, which is not set", s, name)
			}
			b.WriteString(value)
			i += len("${}") + len(name) - 1
		case s[i] != '%':
			b.WriteByte(s[i])
		case i+1 == len(s):
			return "", fmt.Errorf("%q ends with %%", s)
		default:
			i++
			value, ok := t[s[i]]
			if s[i] == '%' {
				value, ok = "%", true
			}
			if !ok {
				return "", fmt.Errorf("%q has a token %%%c, which is not known here", s, s[i])
			}
			b.WriteString(value)
		}
	}
	return b.String(), nil
}

// expandHome replaces a leading ~ or ~user by the path of the home directory.
func (sys *system) expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path, nil
	}
	name, rest, _ := strings.Cut(rest, "/")
	if name == "" {
		return filepath.Join(sys.home, rest), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return filepath.Join(u.HomeDir, rest), nil
}

// connection returns the tokens that settings may use once the destination is known. See TOKENS in
// ssh_config(5).
func (sys *system) connection(d *Destination, jump string) tokens {
	port := strconv.Itoa(d.Port)
	short, _, _ := strings.Cut(sys.hostname, ".")
	hash := sha1.Sum([]byte(sys.hostname + d.Host + port + d.User + jump))
	alias := d.HostKeyAlias
	if alias == "" {
		alias = d.Alias
	}
	return tokens{
		'C': hex.EncodeToString(hash[:]),
		'd': sys.home, 'h': d.Host, 'i': sys.uid, 'j': jump, 'k': alias,
		'L': short, 'l': sys.hostname, 'n': d.Alias, 'p': port, 'r': d.User, 'u': sys.user,
	}
}

// only returns those tokens whose letters occur in `letters`, because some settings allow only a
// few tokens.
func (t tokens) only(letters string) tokens {
	some := tokens{}
	for _, c := range []byte(letters) {
		some[c] = t[c]
	}
	return some
}
