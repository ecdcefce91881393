"""Reports for CI systems and code review: JUnit XML, SARIF and annotations of GitHub."""
