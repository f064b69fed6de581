package serve

import (
	"fmt"

	"github.com/haul-project/haul/internal/failure"
)

// usagef returns a mistake in a setting.
func usagef(setting, format string, args ...any) error {
	return &failure.Error{Kind: failure.Usage, Setting: setting, Err: fmt.Errorf(format, args...)}
}
