package openssh

import (
	"context"
	"fmt"
)

// A Prompter asks the user. Only one question is open at a time. Its methods should return when the
// context ends, because the connection does not wait for them any longer. Texts of servers in the
// arguments are safe to print.
type Prompter interface {
	// Password asks for the password of a user on a host.
	Password(ctx context.Context, user, host string) (string, error)

	// Passphrase asks for the passphrase of a private key. An empty answer means that the key is
	// not used.
	Passphrase(ctx context.Context, keyFile string) (string, error)

	// Confirm asks a yes-or-no question of several lines.
	Confirm(ctx context.Context, text string) (bool, error)

	// KeyboardInteractive asks a server's questions, and returns one answer for each.
	KeyboardInteractive(ctx context.Context, c Challenge) ([]string, error)
}

// A Challenge holds a server's questions (RFC 4256), in the server's words.
type Challenge struct {
	User, Host        string // the account and the host, as the user knows them
	Name, Instruction string // may be empty
	Questions         []Question
}

// A Question is one question of a [Challenge].
type Question struct {
	Text string
	Echo bool // show the answer on the terminal while the user types it
}

// Batch is a [Prompter] whose methods all fail with [ErrBatch].
type Batch struct{}

// Password implements [Prompter].
func (Batch) Password(_ context.Context, user, host string) (string, error) {
	return "", fmt.Errorf("%w for the password of %s@%s", ErrBatch, user, host)
}

// Passphrase implements [Prompter].
func (Batch) Passphrase(_ context.Context, keyFile string) (string, error) {
	return "", fmt.Errorf("%w for the passphrase of %s; ssh-add it to an agent", ErrBatch, keyFile)
}

// Confirm implements [Prompter].
func (Batch) Confirm(context.Context, string) (bool, error) {
	return false, fmt.Errorf("%w whether to trust it", ErrBatch)
}

// KeyboardInteractive implements [Prompter].
func (Batch) KeyboardInteractive(_ context.Context, c Challenge) ([]string, error) {
	return nil, fmt.Errorf("%w what %s wants to know", ErrBatch, c.Host)
}

// question stops the connection's timer, waits until no other question is open, and calls ask. It
// returns when the context ends, even if the Prompter ignores the context.
func question[T any](ctx context.Context, d *Dialer, dest *Destination, waiting *patience, ask func(context.Context, Prompter) (T, error)) (T, error) {
	defer waiting.pause()()
	p := d.Prompter
	if p == nil || dest.BatchMode {
		p = Batch{}
	}
	type reply struct {
		value T
		err   error
	}
	var none T
	turn := d.turn()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	replies := make(chan reply, 1)
	go func() {
		defer func() { <-turn }()
		value, err := ask(ctx, p)
		replies <- reply{value, err}
	}()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
