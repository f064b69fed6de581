package rate_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// All users of an account share its rate, which is the one that was passed last. Other accounts are
// not affected.
func TestAccounts(t *testing.T) {
	var a rate.Accounts[string]
	first, other := a.Enter("a", 1000), a.Enter("b", 1000)
	now := time.Unix(1_000_000, 0)
	first.Sent.Take(now, 1000)
	if wait := other.Sent.Take(now, 100); wait != 0 {
		t.Errorf("another account waits %v", wait)
	}
	if wait := first.Received.Take(now, 100); wait != 0 {
		t.Errorf("the other way waits %v", wait)
	}
	second := a.Enter("a", 2000)
	if n, m := second.Users(), other.Users(); n != 2 || m != 1 {
		t.Errorf("%d and %d users, want 2 and 1", n, m)
	}
	if second != first || first.Sent.Rate() != 2000 || first.Received.Rate() != 2000 {
		t.Errorf("the second is another, or its rate is %d", second.Sent.Rate())
	}
	a.Leave("a")
	if wait := second.Sent.Take(now, 200); wait != time.Second {
		t.Errorf("after the first has left, the second waits %v, want 1s", wait)
	}
}

// An account is kept until it owes nothing in either direction, and no longer. So a user who leaves
// and returns still has to wait.
func TestAccountsOwe(t *testing.T) {
	for name, take := range map[string]func(*rate.Pair) time.Duration{
		"sent":     func(p *rate.Pair) time.Duration { return p.Sent.Take(time.Now(), 1000) },
		"received": func(p *rate.Pair) time.Duration { return p.Received.Take(time.Now(), 1000) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var a rate.Accounts[string]
			for i := range 10 { // each user leaves without having waited
				p := a.Enter("a", 1000)
				if wait, want := take(p), time.Duration(i+1)*time.Second-rate.Burst; wait != want {
					t.Errorf("%s: the %dth waits %v, want %v", name, i+1, wait, want)
				}
				a.Leave("a")
			}
			a.Leave("a")
			a.Leave("nobody")
			if n := a.Len(); n != 1 {
				t.Errorf("%s: %d accounts are kept, want the one that owes", name, n)
			}
			time.Sleep(10*time.Second - time.Millisecond)
			a.Enter("b", 1000)
			a.Leave("b")
			if n := a.Len(); n != 1 {
				t.Errorf("%s: %d accounts are kept, want the one that still owes", name, n)
			}
			time.Sleep(time.Second)
			a.Enter("b", 1000)
			a.Leave("b")
			if n := a.Len(); n != 0 {
				t.Errorf("%s: %d accounts are kept that owe nothing", name, n)
			}
			if wait := take(a.Enter("a", 1000)); wait != time.Second-rate.Burst {
				t.Errorf("%s: who has paid waits %v", name, wait)
			}
		})
	}
}

// The number of accounts that are kept because they owe is bounded. Accounts in use do not count.
func TestAccountsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 100
		var a rate.Accounts[string]
		a.Enter("busy", 1)
		for i := range rate.MaxOwing + more {
			name := strconv.Itoa(i)
			a.Enter(name, 1).Sent.Take(time.Now(), 1000)
			a.Leave(name)
		}
		if n := a.Len(); n != rate.MaxOwing+1 {
			t.Errorf("%d accounts are kept, want %d and the busy one", n, rate.MaxOwing)
		}
		time.Sleep(2 * 1000 * time.Second)
		a.Leave("busy")
		if n := a.Len(); n != 0 {
			t.Errorf("%d accounts are kept that owe nothing", n)
		}
	})
}
