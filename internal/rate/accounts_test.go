package rate_test

import (
	"testing"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// Who uses an account shares its rate, and nobody else's; the rate given last holds.
func TestAccounts(t *testing.T) {
	var a rate.Accounts
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
	if second != first || first.Sent.Rate() != 2000 || first.Received.Rate() != 2000 {
		t.Errorf("the second is another, or its rate is %d", second.Sent.Rate())
	}
	a.Leave("a")
	if wait := second.Sent.Take(now, 200); wait != time.Second {
		t.Errorf("after the first has left, the second waits %v, want 1s", wait)
	}
	a.Leave("a")
	a.Leave("nobody")
	if again := a.Enter("a", 1000); again == first {
		t.Error("an account that nobody used was kept")
	}
}
