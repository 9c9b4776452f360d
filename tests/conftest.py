"""What every test may ask for, one file a service.  Nothing starts until a test asks."""

pytest_plugins = [
    "tests.fixtures.folders",
    "tests.fixtures.servers",
    "tests.fixtures.database",
    "tests.fixtures.storage",
    "tests.fixtures.broker",
    "tests.fixtures.stack",
    "tests.fixtures.tiny_model",
    "tests.fixtures.work",
]
