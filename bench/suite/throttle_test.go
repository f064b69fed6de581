package suite

import (
	"os/exec"
	"testing"
	"time"
)

// A process that is limited to a tenth of a core gets no more. It stops by its own count of CPU
// time, which the limit bounds whatever else the machine does.
func TestThrottleCPU(t *testing.T) {
	const share = 0.1
	limit, err := throttleCPU(share)
	if err != nil {
		t.Skip(err) // without root, or without control groups
	}
	t.Cleanup(func() {
		if err := limit.close(); err != nil {
			t.Error(err)
		}
	})
	spin := exec.CommandContext(t.Context(), "sh", "-c", "read go; while :; do :; done")
	start, err := spin.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := spin.Start(); err != nil {
		t.Fatal(err)
	}
	if err := limit.join(spin.Process.Pid); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := start.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	_ = spin.Process.Kill()
	took := time.Since(began)
	_ = spin.Wait() // it was killed
	// A complete period may be used at either end.
	spent := spin.ProcessState.UserTime() + spin.ProcessState.SystemTime()
	if most := time.Duration(share*float64(took)) + 3*cpuPeriod*time.Microsecond/10; spent > most {
		t.Errorf("it had %v of CPU time in %v, more than %v", spent, took, most)
	}
}
