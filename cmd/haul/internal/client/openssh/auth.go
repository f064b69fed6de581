package openssh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// These constants bound a login.
const (
	// maxKeys is the maximum number of keys that the client offers a server. sshd closes the
	// connection at the sixth failure, and after the keys there must be an attempt left for a
	// password.
	maxKeys = 5

	defaultPrompts = 3  // number of password prompts, unless NumberOfPasswordPrompts is set
	maxBanners     = 32 // maximum number of banners from a server
	maxRounds      = 16 // maximum rounds of questions in one keyboard-interactive login
	maxQuestions   = 16 // maximum questions in one round
	maxNotes       = 20 // maximum notes in an AuthError
)

// An authenticator performs the login to one server. x/crypto/ssh calls its methods in the
// goroutine of the handshake.
type authenticator struct {
	d       *Dialer
	ctx     context.Context
	dest    *Destination
	waiting *patience
	host    *hostCheck
	lost    func() error // returns the reason why the connection is lost; nil if it is intact

	agent    *agentConn
	keys     []*identity
	prepared bool // the field keys has been set
	at       int  // index in keys of the next key to offer
	offered  int  // number of keys offered so far
	current  *identity

	passwords int    // number of password prompts so far
	password  string // the last password that the user has typed
	reused    bool   // the configured or remembered password was sent already

	rounds    int  // rounds of questions in the current keyboard-interactive attempt
	attempts  int  // number of keyboard-interactive attempts so far
	wasAsked  bool // the server has sent a round of keyboard-interactive questions
	noPrompts bool // the Prompter has returned ErrBatch, because there is no user to ask

	partial int      // number of factors (keys, passwords) that the server has accepted so far
	banners int      // number of banners that the server has sent
	allowed []string // methods that the server would still accept
	tried   []string // for AuthError.Tried: keys and methods that were offered
	notes   []string // for AuthError.Notes, such as why a key was not offered
	err     error    // the error with which the login has failed; nil if it has not failed
}

func (a *authenticator) close() { a.agent.close() }

func (a *authenticator) note(s string) {
	if !slices.Contains(a.notes, s) && len(a.notes) < maxNotes {
		a.notes = append(a.notes, s)
	}
}

// try records that the key or method s is offered to the server.
func (a *authenticator) try(s string) { a.tried = append(a.tried, s) }

func (a *authenticator) prompts() int {
	if a.dest.NumberOfPasswordPrompts == 0 {
		return defaultPrompts
	}
	return max(a.dest.NumberOfPasswordPrompts, 0)
}

// next is the ssh.ClientAuthCallback: it returns the login method to try next. If no method is
// left, it returns an AuthError.
func (a *authenticator) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	a.allowed = c.AllowedMethods
	switch {
	case a.ctx.Err() != nil:
		return nil, a.ctx.Err()
	case a.err != nil:
		return nil, a.fail(a.err)
	case a.lost() != nil:
		// The connection is lost, so it would be pointless to ask for a password.
		return nil, a.lost()
	}
	if n := len(c.PartialSuccessMethods); n > a.partial {
		// The server has accepted one of several factors. Another key may be the next factor.
		a.partial = n
		if a.current != nil && c.PartialSuccessMethods[n-1] == "publickey" {
			a.current.used = true
		}
		a.at = 0
		a.note(fmt.Sprintf("the server took %s, and wants more", printable(strings.Join(c.PartialSuccessMethods, ", "))))
	}
	methods := a.dest.AuthMethods
	if methods == nil {
		methods = allMethods
	}
	for _, m := range methods {
		if !slices.Contains(c.AllowedMethods, m) {
			continue
		}
		var method ssh.AuthMethod
		switch m {
		case "publickey":
			method = a.nextKey()
		case "keyboard-interactive":
			method = a.nextInteractive()
		case "password":
			method = a.nextPassword()
		}
		if method != nil {
			return method, nil
		}
	}
	return nil, a.fail(nil)
}

// fail returns an AuthError that wraps err, and stores it in a.err.
func (a *authenticator) fail(err error) error {
	a.err = &AuthError{
		User: a.dest.User, Host: a.dest.name(),
		Allowed: a.allowed, Tried: a.tried, Notes: a.notes, Unasked: a.noPrompts, Err: err,
	}
	return a.err
}

// nextKey returns a method that offers the next key, or nil if all keys have been offered.
func (a *authenticator) nextKey() ssh.AuthMethod {
	if !a.prepared {
		a.keys, a.prepared = a.identities(), true
	}
	for a.at < len(a.keys) {
		id := a.keys[a.at]
		if id.used {
			a.at++
			continue
		}
		if a.offered == maxKeys {
			a.note(fmt.Sprintf("%d more keys were not offered, since servers take few: name the right one with IdentityFile, and set IdentitiesOnly", len(a.keys)-a.at))
			return nil
		}
		a.at++
		a.offered++
		a.current = id
		return ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			signer, err := a.signer(id)
			if err != nil {
				a.offered--
				return nil, err
			}
			a.try(id.name)
			return []ssh.Signer{signer}, nil
		})
	}
	return nil
}

// nextPassword returns a method that sends a password: the one that secret returns or, if there is no
// such password, one that the user types. It returns nil if no password may be sent, or if the user
// may not be asked.
func (a *authenticator) nextPassword() ssh.AuthMethod {
	switch {
	case a.distrusted("password"), a.noPrompts, a.passwords >= a.prompts():
		return nil
	}
	if secret, what := a.secret(); what != "" {
		return ssh.PasswordCallback(func() (string, error) {
			a.try(what)
			return secret, nil
		})
	}
	if a.dest.Password != "" {
		return nil
	}
	if a.passwords > 0 {
		a.d.notify("Permission denied, please try again.")
	}
	a.passwords++
	return ssh.PasswordCallback(func() (string, error) {
		password, err := question(a.ctx, a.d, a.dest, a.waiting, func(ctx context.Context, p Prompter) (string, error) {
			return p.Password(ctx, a.dest.User, a.dest.name())
		})
		if err != nil {
			return "", a.unanswered(err)
		}
		a.try("password")
		a.password = password
		return password, nil
	})
}

// secret returns the password in Destination.Password or, if that is empty, the password of an
// earlier login. The result `what` describes the password for messages. In each login it returns a
// password only once, and "" afterwards.
func (a *authenticator) secret() (secret, what string) {
	if a.reused {
		return "", ""
	}
	secret, what = a.dest.Password, "the password given"
	if secret == "" {
		secret, what = a.d.secret(a.dest.way()), "password, as before"
	}
	if secret == "" {
		return "", ""
	}
	a.reused = true
	return secret, what
}

// unanswered handles a question that was not answered. If there is no user to ask, the login
// continues with methods that need no answer. Otherwise the user has cancelled the login.
func (a *authenticator) unanswered(err error) error {
	if errors.Is(err, ErrBatch) {
		a.noPrompts = true
		a.note(err.Error())
	} else {
		a.err = err
	}
	return err
}

// distrusted reports whether a method that would reveal secrets must not be used, because the server
// has shown another host key than the known one.
func (a *authenticator) distrusted(method string) bool {
	if a.host.distrust {
		a.note(method + " is left out: the host key is not the one that is known")
	}
	return a.host.distrust
}

// nextInteractive returns a keyboard-interactive method, or nil if no further attempt makes sense.
func (a *authenticator) nextInteractive() ssh.AuthMethod {
	switch {
	case a.distrusted("keyboard-interactive"), a.noPrompts, a.attempts >= a.prompts():
		return nil
	case a.attempts > 0 && !a.wasAsked:
		return nil // the server has refused without asking a question, and would do so again
	}
	if a.attempts > 0 {
		a.d.notify("Permission denied, please try again.")
	}
	a.attempts++
	a.rounds = 0
	a.try("keyboard-interactive")
	return ssh.KeyboardInteractive(a.interact)
}

// interact answers one round of the server's questions.
func (a *authenticator) interact(name, instruction string, questions []string, echos []bool) ([]string, error) {
	a.wasAsked = true
	a.rounds++
	if a.rounds > maxRounds || len(questions) > maxQuestions {
		a.err = fmt.Errorf("the server asks too much: round %d with %d questions", a.rounds, len(questions))
		return nil, a.err
	}
	c := Challenge{
		User: a.dest.User, Host: a.dest.name(),
		Name: printable(name), Instruction: printable(instruction),
	}
	for i, q := range questions {
		c.Questions = append(c.Questions, Question{Text: printable(q), Echo: echos[i]})
	}
	if len(questions) == 0 {
		// If a round has no questions, show its text to the user, and answer with an empty list
		// (RFC 4256 §3.2).
		if text := strings.TrimSpace(c.Name + "\n" + c.Instruction); text != "" {
			a.d.notify(text)
		}
		return nil, nil
	}
	isPassword := len(questions) == 1 && !echos[0] && strings.Contains(strings.ToLower(questions[0]), "password")
	if isPassword {
		secret, what := a.secret()
		switch {
		case what != "":
			a.attempts--
			a.try(what)
			return []string{secret}, nil
		case a.dest.Password != "":
			return nil, a.unanswered(fmt.Errorf("%w for another password than the one given", ErrBatch))
		}
	}
	answers, err := question(a.ctx, a.d, a.dest, a.waiting, func(ctx context.Context, p Prompter) ([]string, error) {
		return p.KeyboardInteractive(ctx, c)
	})
	if err == nil && len(answers) != len(questions) {
		err = fmt.Errorf("%d answers to %d questions", len(answers), len(questions))
	}
	if err != nil {
		return nil, a.unanswered(err)
	}
	if isPassword {
		a.password = answers[0]
	}
	return answers, nil
}

// banner shows a message that the server sends before the login.
func (a *authenticator) banner(text string) error {
	if a.banners++; a.banners > maxBanners {
		return errors.New("the server sends banners without end")
	}
	if text = strings.TrimSpace(printable(text)); text != "" && !a.dest.NoBanner {
		a.d.notify(text)
	}
	return nil
}

// done is called after a successful login. It stores the password that was used, for further
// connections to the same host.
func (a *authenticator) done() {
	if a.password != "" {
		a.d.secrets.Store(a.dest.way(), a.password)
	}
}
