package sftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/penalty"
)

// errUnchecked marks the errors of passwords that were refused without being checked.
var errUnchecked = errors.New("the password was not checked")

// A passwordGuard decides during a handshake whether to check a password that the peer sends.
type passwordGuard struct {
	ctx    context.Context // ends with the connection
	visit  *penalty.Visit
	locked error  // the reason why a password was not checked; nil if all passwords were checked
	end    func() // finishes the turn of the current password; nil if none is being checked
}

// guard wraps the callbacks of config so that passwords are checked only if the peer's source has
// not sent too many wrong ones. During a lockout, passwords are not even offered as a method if the
// client can log in with a key. The client then does not ask the user for a password.
func (g *passwordGuard) guard(config *ssh.ServerConfig) {
	all := g.guarded(ssh.ServerAuthCallbacks{
		PasswordCallback: config.PasswordCallback, KeyboardInteractiveCallback: config.KeyboardInteractiveCallback,
		PublicKeyCallback: config.PublicKeyCallback,
	})
	config.PasswordCallback, config.KeyboardInteractiveCallback = all.PasswordCallback, all.KeyboardInteractiveCallback
	config.PublicKeyCallback = all.PublicKeyCallback
	if verified := config.VerifiedPublicKeyCallback; verified != nil {
		config.VerifiedPublicKeyCallback = func(m ssh.ConnMetadata, key ssh.PublicKey, p *ssh.Permissions, algorithm string) (*ssh.Permissions, error) {
			p, err := verified(m, key, p, algorithm)
			return p, g.guardNext(err)
		}
	}
	if g.mayGuess() != nil && config.PublicKeyCallback != nil {
		config.PasswordCallback, config.KeyboardInteractiveCallback = nil, nil
	}
}

// guarded wraps callbacks so that passwords are checked only while that is allowed, even in the
// second of two authentication steps.
func (g *passwordGuard) guarded(a ssh.ServerAuthCallbacks) ssh.ServerAuthCallbacks {
	if check := a.PasswordCallback; check != nil {
		a.PasswordCallback = func(m ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if err := g.beginGuess(); err != nil {
				return nil, err
			}
			p, err := check(m, password)
			return p, g.guardNext(err)
		}
	}
	if check := a.KeyboardInteractiveCallback; check != nil {
		a.KeyboardInteractiveCallback = func(m ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			if err := g.mayGuess(); err != nil {
				return nil, err
			}
			p, err := check(m, g.askFirst(ask))
			return p, g.guardNext(err)
		}
	}
	if check := a.PublicKeyCallback; check != nil {
		a.PublicKeyCallback = func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			p, err := check(m, key)
			return p, g.guardNext(err)
		}
	}
	return a
}

// guardNext wraps the callbacks of the next authentication step, if there is one.
func (g *passwordGuard) guardNext(err error) error {
	if partial, ok := errors.AsType[*ssh.PartialSuccessError](err); ok {
		return &ssh.PartialSuccessError{Next: g.guarded(partial.Next)}
	}
	return err
}

// askFirst wraps a challenge so that the connection takes its turn to have a password checked only
// after the answers have arrived, because a user may take long to type them.
func (g *passwordGuard) askFirst(ask ssh.KeyboardInteractiveChallenge) ssh.KeyboardInteractiveChallenge {
	return func(name, instruction string, questions []string, echos []bool) ([]string, error) {
		g.endGuess() // the previous answers have been checked, so another connection may take its turn
		answers, err := ask(name, instruction, questions, echos)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errUnchecked, err)
		case len(questions) > 0:
			err = g.beginGuess()
		}
		return answers, err
	}
}

// beginGuess waits until it is this connection's turn to have a password checked; endGuess finishes
// the turn. beginGuess returns nil, or the reason why the password is not checked now.
func (g *passwordGuard) beginGuess() error {
	end, err := g.visit.BeginGuess(g.ctx, time.Now)
	if err != nil {
		return g.uncheckedFor(err)
	}
	g.end = end
	return nil
}

// endGuess finishes the turn that beginGuess began, if there is one.
func (g *passwordGuard) endGuess() {
	if end := g.end; end != nil {
		g.end = nil
		end()
	}
}

// mayGuess returns nil, or the reason why passwords of the peer are not checked now.
func (g *passwordGuard) mayGuess() error {
	if err := g.visit.Guess(time.Now()); err != nil {
		return g.uncheckedFor(err)
	}
	return nil
}

// uncheckedFor returns the error for a password that was not checked because of err.
func (g *passwordGuard) uncheckedFor(err error) error {
	g.locked = err
	return fmt.Errorf("%w: %w", errUnchecked, err)
}

// lockoutBanner returns a line of text for a client whose passwords are not checked now, or "".
func (g *passwordGuard) lockoutBanner() string {
	r, ok := errors.AsType[*penalty.Refusal](g.visit.Guess(time.Now()))
	if !ok {
		return ""
	}
	return fmt.Sprintf("Passwords from your address are refused for another %v, as too many were wrong. Keys still work.\r\n",
		max(time.Second, r.For.Round(time.Second)))
}

// lockedOut calls the LockedOut hook for the lockout `began`, unless it is nil.
func (s *Server) lockedOut(from net.Addr, began *penalty.Lockout) {
	if began != nil && s.LockedOut != nil {
		s.LockedOut(from, Lockout{Network: began.Source, For: began.For, Passwords: began.Cause == penalty.WrongPasswords})
	}
}
