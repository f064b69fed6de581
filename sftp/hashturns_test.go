package sftp

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// However many hashes a user waits for, another user's hash is computed after at most as many as may
// be computed at a time.
func TestHashTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 2
		turns := hashTurns{places: make(chan struct{}, places)}
		for range places {
			turns.places <- struct{}{}
		}
		var mu sync.Mutex
		var order []string // guarded by mu
		wait := func(ctx context.Context, user string) <-chan error {
			u, done := turns.enter(user), make(chan error, 1)
			go func() {
				end, err := turns.take(ctx, u)
				if err == nil {
					mu.Lock()
					order = append(order, user)
					mu.Unlock()
					end()
				}
				turns.leave(user)
				done <- err
			}()
			return done
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var all []<-chan error
		for range 100 {
			all = append(all, wait(t.Context(), "alice"))
		}
		for range 2 * places {
			all = append(all, wait(ctx, "carol"))
		}
		synctest.Wait()
		cancel(errLeft)
		for _, done := range all[100:] {
			if err := <-done; !errors.Is(err, errLeft) {
				t.Errorf("one that is canceled ends by %v", err)
			}
		}
		all = append(all[:100], wait(t.Context(), "bob"))
		synctest.Wait()
		<-turns.places
		for _, done := range all {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		at := 0
		for at < len(order) && order[at] != "bob" {
			at++
		}
		if len(order) != 101 || at > places {
			t.Errorf("bob's is number %d of %d", at+1, len(order))
		}
		<-turns.places
		if n := len(turns.users); n != 0 || len(turns.places) != 0 {
			t.Errorf("%d users are left", n)
		}
	})
}
