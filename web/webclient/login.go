package webclient

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/haul-project/haul/internal/servertext"
)

// An account holds the login that the client sends.
type account struct {
	mu       sync.Mutex
	config   *Config
	asked    bool   // Password was called; guarded by mu
	user     string // the user to send, if logged is set; guarded by mu
	password string // the password to send, if logged is set; guarded by mu
	logged   bool   // user and password are set, and can be sent; guarded by mu
	err      error  // why the client has no login; guarded by mu
}

// known returns the login that is sent with each request, if there is one yet.
func (a *account) known() (user, password string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.user, a.password, a.logged
}

// early calls Password before the server requires a login, if Config.Eager is set.
func (a *account) early(ctx context.Context, host string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.config.Eager || a.asked {
		return nil
	}
	return a.find(ctx, host, "")
}

// login gets a login for a server that has answered 401, and reports whether there is a new one to
// send. It calls Password, unless Password was called before. had says whether the refused request
// contained a login.
func (a *account) login(ctx context.Context, had bool, host string, challenges []string) (bool, error) {
	realm, basic := basicRealm(challenges)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.logged != had:
		return true, nil // another request has obtained a login meanwhile
	case a.asked || a.config.Password == nil:
		return false, a.err
	case !basic:
		return false, loginError{fmt.Errorf("%w by other means than basic authentication: %q", ErrLogin, servertext.Cut(strings.Join(challenges, ", ")))}
	}
	err := a.find(ctx, host, realm)
	return err == nil, err
}

// find calls Password and stores the login. The caller holds mu, so other requests wait for the
// result instead of calling Password too.
func (a *account) find(ctx context.Context, host, realm string) error {
	if a.config.Password == nil {
		return nil
	}
	a.asked = true
	a.user, a.password, a.err = a.config.Password(ctx, a.config.User, host, realm)
	if a.err == nil && strings.Contains(a.user, ":") {
		a.err = fmt.Errorf("a user's name cannot have a colon in basic authentication") // RFC 7617 §2
	}
	if a.err != nil {
		a.err = loginError{a.err}
		return a.err
	}
	a.logged = true
	return nil
}

// basicRealm returns the realm of a challenge for basic authentication, and whether there is such a
// challenge (RFC 9110 §11.6.1).
func basicRealm(challenges []string) (realm string, basic bool) {
	for _, all := range challenges {
		for at := 0; at < len(all); {
			i := indexFold(all[at:], "basic")
			if i < 0 {
				break
			}
			begin := at + i
			at = begin + len("basic")
			if begin > 0 && !strings.ContainsRune(" ,\t", rune(all[begin-1])) || at < len(all) && !strings.ContainsRune(" ,\t", rune(all[at])) {
				continue // part of another word
			}
			rest := all[at:]
			if i := indexFold(rest, `realm="`); i >= 0 {
				realm, _, _ = strings.Cut(rest[i+len(`realm="`):], `"`)
			}
			return servertext.Cut(realm), true
		}
	}
	return "", false
}

// indexFold is strings.Index, ignoring case, for an ASCII word in arbitrary bytes.
func indexFold(s, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}
