package sftp

import (
	"context"
	"sync"
)

// hashTurns bounds how many hashes are computed at a time. Others wait for their turn. The hashes
// of a user that are computed or next are never more than that bound; the user's other hashes wait
// behind them. So a user who asks for many hashes delays those of other users by one turn.
type hashTurns struct {
	places chan struct{} // holds an element for each hash that is being computed

	mu    sync.Mutex
	users map[string]*hashUser // the users with connections; guarded by mu
}

// A hashUser has the turns of one user.
type hashUser struct {
	places chan struct{} // holds an element for each hash of the user that is being computed or is next
	conns  int           // number of connections; guarded by hashTurns.mu
}

// enter returns the turns of a user. The caller must call leave later.
func (t *hashTurns) enter(user string) *hashUser {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[user]
	if u == nil {
		if t.users == nil {
			t.users = map[string]*hashUser{}
		}
		u = &hashUser{places: make(chan struct{}, cap(t.places))}
		t.users[user] = u
	}
	u.conns++
	return u
}

// leave undoes one enter.
func (t *hashTurns) leave(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[user]
	if u.conns--; u.conns == 0 {
		delete(t.users, user)
	}
}

// take waits for a turn of a user. The caller must call end when the turn is over.
func (t *hashTurns) take(ctx context.Context, u *hashUser) (end func(), err error) {
	select {
	case u.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case t.places <- struct{}{}:
		return func() { <-t.places; <-u.places }, nil
	case <-ctx.Done():
		<-u.places
		return nil, context.Cause(ctx)
	}
}
