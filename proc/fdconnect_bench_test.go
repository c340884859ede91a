package proc

import "testing"

// BenchmarkScanConnections takes the host as it is.
func BenchmarkScanConnections(b *testing.B) {
	s := live(b).NewDescriptorScanner()
	var c *HostConnections
	for b.Loop() {
		var err error
		if c, err = s.ScanConnections(HostLimits{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(c.Descriptors), "descriptors")
	b.ReportMetric(float64(len(c.Objects)), "objects")
}
