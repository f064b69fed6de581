package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/haul-project/haul/internal/privilege"
)

// TestMain keeps "haul serve" from confining this process, which has other
// tests to run; privilege_linux_test.go and serve_linux_test.go do it in
// processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv(asHaul) != "" {
		main()
	}
	if addr := os.Getenv(asProxy); addr != "" && len(os.Args) == 1 {
		runProxy(addr)
	}
	for _, v := range []string{"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY"} {
		_ = os.Unsetenv(v) // of whoever runs the tests
	}
	// Who runs tests in the background of a shell has SIGINT ignored, and so
	// would the children of tests. To ask for it gives them the default.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	giveUp = func(*privilege.User, privilege.Confinement, *slog.Logger) error { return nil }
	os.Exit(m.Run())
}

// asHaul has this test binary behave as haul.
const asHaul = "HAUL_TEST_AS_HAUL"
