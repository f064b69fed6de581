package remote

import "testing"

// A question is announced before it is asked, and when it is over.
func TestAskingIsAnnounced(t *testing.T) {
	for _, v := range []string{"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"} {
		t.Setenv(v, "")
	}
	asked, over := 0, 0
	a := &asker{ended: true} // so that it asks nobody, if there is a terminal
	a.asking = func() func() {
		asked++
		return func() { over++ }
	}
	if _, err := a.Password(t.Context(), "me", "host"); err == nil || asked != 1 || over != 1 {
		t.Errorf("announced %d times, over %d times, %v", asked, over, err)
	}
}
